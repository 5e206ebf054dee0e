"""Log compaction: of each key the newest committed value stays, the rest goes.

`eligibility` says which log is due and `plan` which segments merge; `cleaning` rewrites them, in
a child process (`process` starts `child`); `swap` puts the outcome in place, in the parent only.
Until `swap.swap_in` runs, a cleaning has changed nothing but files that end in `.cleaned`.
"""

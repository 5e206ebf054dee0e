"""Log compaction: which logs are due, the cleaning in a child process, the segment swap.

Start with `log_cleaner` (scheduling in the broker) and `cleaner` (one cleaning).
`cleaner_process` starts the child, `cleaner_child` is its main program.
"""

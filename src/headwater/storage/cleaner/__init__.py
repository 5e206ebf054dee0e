"""Log compaction: choose logs, clean them in a child process, swap the segments.

Start with `log_cleaner` (scheduling in the broker) and `cleaner` (one cleaning). `cleaner_process`
starts the child, `cleaner_child` is its main program.
"""

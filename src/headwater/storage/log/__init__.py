"""Log of one partition: append, read, roll, retention, truncation, recovery.

Start with `unified_log`, then `local_log` (its segments) and `segment` (one file with indexes).
`log_loader` opens a log after a clean or an unclean shutdown.
"""

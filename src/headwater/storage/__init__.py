"""Logs of one broker: segments, indexes, producer state, retention, cleaning.

Start with `log.unified_log` (one partition) and `log_manager.log_manager` (all partitions). All I/O
goes through the ports in `io`, so that the simulator can replace the disk.
"""

"""Idempotent and transactional producer state of a partition, and its snapshot files.

Start with `producer_state_manager` (sequence checks, last stable offset). `producer_snapshot` is
the file format, `producer_replay` rebuilds the state from the log.
"""

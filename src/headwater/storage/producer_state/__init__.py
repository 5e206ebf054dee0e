"""Idempotent and transactional state of producers, with snapshot files.

Start with `producer_state_manager` (sequence checks, last stable offset). `producer_snapshot` is
the file format, `producer_replay` rebuilds the state from the log.
"""

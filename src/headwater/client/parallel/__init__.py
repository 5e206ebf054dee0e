"""Many workers for one consumer with per-key order, and deduplication.

Start with `parallel_consumer`; `commit_progress` decides what may be committed.
"""

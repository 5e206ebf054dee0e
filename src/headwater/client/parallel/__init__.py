"""Process the records of one consumer with many workers, ordered by key; deduplication.

Start with `parallel_consumer`; `commit_progress` decides which offsets may be committed.
"""

"""Process one consumer's records with many workers, ordered by key.

Also skips duplicates.

Start with `parallel_consumer`; `commit_progress` decides which offsets may be committed.
"""

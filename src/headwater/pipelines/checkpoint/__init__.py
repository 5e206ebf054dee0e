"""Checkpoints of pipelines: resetting them, and judging a changed file by them.

Start with `query_checkpoint` and `file_changes`; `checkpoint_storage` reads and writes the files.
"""

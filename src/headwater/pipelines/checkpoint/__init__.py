"""Checkpoints of pipelines: resets, and comparison with a changed file.

Start with `query_checkpoint` and `file_changes`; `checkpoint_storage` reads and writes the files.
"""

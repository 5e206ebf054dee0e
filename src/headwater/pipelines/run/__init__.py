"""Running a pipeline: data frames, queries, restarts, progress.

Start with `pipeline_run` and `supervisor`; `source_decoder` also makes the dead letters.
"""

"""Metrics of running pipelines: totals of batches, lag, consumer group offsets.

Start with `pipeline_metrics`, which serves what `progress_listener` and `lag_monitor` find.
"""

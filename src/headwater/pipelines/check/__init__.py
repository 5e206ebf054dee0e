"""Validation without Spark: options, SQL grammar, topics, schemas.

Start with `checked_pipeline` and `pipeline_check`.
"""

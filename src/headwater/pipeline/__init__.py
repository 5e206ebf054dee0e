"""Spark: the data source and sink, pipelines, connect and mirror jobs.

The only room that may import pyspark. Empty until the pipelines are built.
"""

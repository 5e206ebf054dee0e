"""Pipelines in the form of other tools: Spark Declarative Pipelines."""

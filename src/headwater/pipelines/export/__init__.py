"""Pipelines in the form of other tools. `declarative_pipeline` has Spark Declarative Pipelines."""

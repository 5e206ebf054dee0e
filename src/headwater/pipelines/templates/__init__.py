"""Pipelines to start from: a commented file and a test for each.

`new_pipeline` writes them. `{{name}}` stands for the pipeline's name.
"""

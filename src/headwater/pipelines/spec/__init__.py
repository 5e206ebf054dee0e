"""Pipeline files: documents with line numbers, and the values read from them.

Start with `pipeline_spec` (what a pipeline is) and `pipeline_reader` (how a file becomes one).
"""

"""Pipeline files: documents that know their lines, and the values they are read into.

Start with `pipeline_spec` (what a pipeline is) and `pipeline_reader` (how a file becomes one).
"""

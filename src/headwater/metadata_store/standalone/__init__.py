"""Metadata of a standalone broker, in one file of its data directory.

Start with `standalone_store`; `standalone_metadata_file` is the file format (`cluster.facts`),
`metadata_change_json` the JSON of a single change.
"""

"""Protobuf to typed columns and back, a field at a time, with a schema registry.

Start with `protobuf_reader` and `protobuf_writer`; `message_columns` has the types of columns.
`registry_cache` fetches schemas in Spark's processes.
"""

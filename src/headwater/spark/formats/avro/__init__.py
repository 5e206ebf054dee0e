"""Avro to typed columns and back, a column at a time, with a schema registry.

Start with `avro_reader` and `avro_writer`; `schema_resolution` matches the writer's schema to the
reader's. `registry_cache` fetches schemas in Spark's processes.
"""

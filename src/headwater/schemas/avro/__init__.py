"""Avro schemas: parser, canonical form and compatibility rules.

Start with `schema` (the registry's parser); `compatibility` compares a reader's and a writer's
schema. `resolved_schema` is the tree that Spark's columns are built from, and says why it is a
second one.
"""

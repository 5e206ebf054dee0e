"""Protobuf schemas: parser, texts, descriptors and compatibility rules.

Start with `schema` (the tree) and `schema_reader`. `resolution` finds the types that fields name,
`compatibility` compares two schemas, `descriptors` builds what the Protobuf runtime needs.
"""

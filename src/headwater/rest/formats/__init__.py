"""Embedded formats: JSON in requests and responses, bytes in records.

Start with `embedded_format`. `schema_formats` uses the schema registry; a new schema type is one
more entry in its table `CODECS`.
"""

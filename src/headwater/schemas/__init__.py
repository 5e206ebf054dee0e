"""Schema languages as pure code: Avro and JSON Schema, and compatibility.

Shared by the schema registry, the client's serializers and Spark.
Start with `avro.schema` and `json_schema.schema`.
"""

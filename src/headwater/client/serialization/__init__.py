"""Serializers and deserializers, also with a schema registry.

Start with `serdes`; `schema_registry_serde` is what the Avro and JSON Schema serializers share.
"""

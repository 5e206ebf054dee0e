"""Serializers and deserializers, with and without a schema registry.

Start with `serdes`; `schema_registry_serde` is what the Avro and JSON Schema serializers share.
"""

"""A schema registry with Confluent's HTTP interface and `_schemas` topic.

Start with `server` and `routes`; `commands` decides, `schema_store` reads and writes `_schemas`.
"""

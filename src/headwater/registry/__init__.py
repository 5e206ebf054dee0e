"""A schema registry with Confluent's REST API and `_schemas` topic.

Start with `server` and `routes`. `commands` and `queries` decide from `registry_state`;
`schema_store` reads and writes `_schemas`.
"""

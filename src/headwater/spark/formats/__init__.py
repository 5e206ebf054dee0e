"""Keys and values with types: `keyFormat` and `valueFormat`.

Start with `typed_values`; `json` and `avro` convert whole columns.
"""

"""Change data capture from PostgreSQL by logical decoding (pgoutput).

Start with `cdc_connector`, the source `postgresql-cdc`, or with `cdc_reader`, a class that reads
snapshots and transactions without Spark. `change_feed` is how the sink `postgresql` takes changes.
`pgoutput`, `column_types`, `row_changes`, `debezium_envelope` and `flat_rows` are pure.
"""

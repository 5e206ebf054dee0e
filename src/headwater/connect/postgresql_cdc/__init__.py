"""Change data capture from PostgreSQL by logical decoding (pgoutput).

Start with `cdc_reader`, which reads snapshots and committed transactions from a replication slot.
`pgoutput`, `column_types`, `row_changes`, `debezium_envelope` and `flat_rows` are pure.

Not wired yet: no connector, pipeline or command uses this package.
"""

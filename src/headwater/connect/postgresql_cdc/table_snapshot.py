"""Read the rows of tables at one moment, in the order of their primary keys.

All tables and chunks of a session are read in one REPEATABLE READ transaction. psycopg runs the
statements and ADBC, in a transaction with the same snapshot, reads rows as Arrow. Values are texts,
in the form that pgoutput has for them.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any, Final

import pyarrow as pa

from headwater.connect.postgresql_cdc.cdc_position import KeyTexts, VisibleTransactions
from headwater.connect.postgresql_cdc.pgoutput import (
    Relation,
    RelationColumn,
    ReplicaIdentity,
    parse_lsn,
)
from headwater.connect.postgresql_cdc.replication_slot import (
    SESSION_SETTINGS,
    SqlConnection,
    TableName,
    execute,
    key_condition,
    literal,
    query,
    quoted_name,
    refusals,
    slot_status,
    sql_connection,
)
from headwater.connect.postgresql_cdc.row_changes import Operation, RowChange
from headwater.connect.postgresql_client import connect

_RELATION: Final = b"relation"
_REPEATABLE_READ: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


class SnapshotSession:
    """An open snapshot of tables; the slot must exist.

    Note: PostgreSQL looks columns up as they are now, not as they were when the snapshot was taken.
    So the tables are locked against ALTER TABLE and TRUNCATE, before the snapshot is taken.
    """

    def __init__(self, uri: str, slot: str, tables: Sequence[TableName]) -> None:
        self._slot = slot
        with ExitStack() as stack:
            self._sql = stack.enter_context(sql_connection(uri, slot))
            self.confirmed_lsn = slot_status(self._sql, slot).confirmed_flush_lsn
            execute(self._sql, _REPEATABLE_READ)
            listed = ", ".join(f"ONLY {table.quoted()}" for table in tables)
            execute(self._sql, f"LOCK TABLE {listed} IN ACCESS SHARE MODE")
            (row,) = query(
                self._sql,
                "SELECT pg_current_snapshot()::text AS snapshot, pg_export_snapshot() AS name, "
                "(extract(epoch FROM now()) * 1000)::bigint AS now_ms",
            )
            # A statement of its own: the snapshot exists before this LSN is read.
            (end,) = query(self._sql, "SELECT pg_current_wal_insert_lsn()::text AS lsn")
            self._rows = stack.enter_context(closing(connect(uri)))
            with refusals(slot), closing(self._rows.cursor()) as cursor:
                for name, value in SESSION_SETTINGS.items():
                    cursor.execute(f"SET {name} = {literal(value)}")
                self._rows.commit()
                cursor.execute(_REPEATABLE_READ)
                cursor.execute(f"SET TRANSACTION SNAPSHOT {literal(row['name'])}")
            self._stack = stack.pop_all()
        self.visible = VisibleTransactions(text=row["snapshot"], end_lsn=parse_lsn(end["lsn"]))
        self.snapshot_ms: int = row["now_ms"]

    def close(self) -> None:
        self._stack.close()

    def relation(self, table: TableName) -> Relation:
        with refusals(self._slot):
            return relation_of(self._sql, table)

    def rows(
        self,
        relation: Relation,
        *,
        key: Sequence[str] = (),
        after: KeyTexts | None = None,
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows with the columns of the relation as texts, up to `limit` ones after a key."""
        table = TableName(relation.namespace, relation.name)
        # A cast to text is not the same for all types; format() prints what pgoutput prints.
        columns = ", ".join(
            f"CASE WHEN {name} IS NOT DISTINCT FROM NULL THEN NULL "
            f"ELSE format('%s', {name}) END AS {name}"
            for name in (quoted_name(column.name) for column in relation.columns)
        )
        statement = f"SELECT {columns} FROM ONLY {table.quoted()} AS t"
        schema = chunk_schema(relation)
        with refusals(self._slot), closing(self._rows.cursor()) as cursor:
            if after is not None:
                statement += f" WHERE {key_condition(self._sql, table, key, after)}"
            if key:
                statement += " ORDER BY " + ", ".join(f"t.{quoted_name(name)}" for name in key)
            if limit is not None:
                statement += f" LIMIT {limit}"
            cursor.execute(statement)
            for batch in cursor.fetch_record_batch():
                if batch.num_rows:
                    arrays = [column.cast(pa.string()) for column in batch.columns]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def chunk_schema(relation: Relation) -> pa.Schema:
    """Columns of texts; the relation is in the metadata."""
    described = {
        "oid": relation.oid,
        "namespace": relation.namespace,
        "name": relation.name,
        "identity": relation.replica_identity.value,
        "columns": [
            [each.name, each.type_oid, each.type_modifier, each.is_key, each.type_name]
            for each in relation.columns
        ],
    }
    fields = [pa.field(each.name, pa.string()) for each in relation.columns]
    return pa.schema(fields, metadata={_RELATION: json.dumps(described).encode()})


def relation_in(schema: pa.Schema) -> Relation:
    """The relation of a chunk."""
    found: dict[str, Any] = json.loads((schema.metadata or {})[_RELATION])
    return Relation(
        oid=found["oid"],
        namespace=found["namespace"],
        name=found["name"],
        replica_identity=ReplicaIdentity(found["identity"]),
        columns=tuple(
            RelationColumn(
                name=name, type_oid=oid, type_modifier=modifier, is_key=is_key, type_name=kind
            )
            for name, oid, modifier, is_key, kind in found["columns"]
        ),
    )


def row_reads(batch: pa.RecordBatch, relation: Relation) -> Iterator[RowChange]:
    """The rows of a chunk as changes of operation READ."""
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        yield RowChange(operation=Operation.READ, relation=relation, after=row)


def last_key(batch: pa.RecordBatch, key: Sequence[str]) -> KeyTexts:
    """The primary key of the last row."""
    return tuple(str(batch.column(name)[-1]) for name in key)


def relation_of(connection: SqlConnection, table: TableName) -> Relation:
    """The table as pgoutput describes it."""
    regclass = f"{literal(table.quoted())}::regclass"
    rows = query(
        connection,
        "SELECT c.oid::bigint AS oid, c.relreplident::text AS identity, a.attname::text AS name, "
        "a.atttypid::bigint AS type_oid, a.atttypmod AS type_modifier, "
        "format_type(a.atttypid, a.atttypmod) AS type_name, "
        "c.relreplident = 'f' OR EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid "
        "AND a.attnum = ANY (i.indkey) AND CASE c.relreplident WHEN 'd' THEN i.indisprimary "
        "WHEN 'i' THEN i.indisreplident ELSE false END) AS is_key "
        "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        f"WHERE c.oid = {regclass} AND a.attnum > 0 AND NOT a.attisdropped "
        "AND a.attgenerated = '' ORDER BY a.attnum",
    )
    return Relation(
        oid=rows[0]["oid"],
        namespace=table.schema,
        name=table.table,
        replica_identity=ReplicaIdentity(rows[0]["identity"]),
        columns=tuple(
            RelationColumn(
                name=row["name"],
                type_oid=row["type_oid"],
                type_modifier=row["type_modifier"],
                is_key=row["is_key"],
                type_name=row["type_name"],
            )
            for row in rows
        ),
    )

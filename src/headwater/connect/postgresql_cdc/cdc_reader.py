"""Read snapshots and committed transactions of PostgreSQL tables.

    reader = CdcReader(uri, tables=["public.orders"], slot="shop", publication="shop")
    reader.create()
    with reader.snapshot() as snapshot:
        for change in snapshot.rows(): ...
        position = snapshot.position
    transactions = reader.read(position)
    position = position.after(transactions)
    reader.confirm(position)

Reading confirms nothing: until `confirm`, PostgreSQL keeps the log and `read` returns the same
transactions again. Store the position with what was written, then confirm it.

How a snapshot and the stream fit together: the slot is created first, so the stream has every
transaction that commits from then on. The snapshot is a later REPEATABLE READ transaction; some
transactions of the stream are therefore visible in it. The position holds PostgreSQL's description
of the snapshot (`pg_current_snapshot`), and `read` leaves out the transactions that are visible in
it. Each change is thus either in the snapshot or in the stream.

Note: `pg_logical_slot_peek_binary_changes` decodes from the slot's restart LSN at each call and
holds a whole transaction in memory. Streaming replication is not implemented.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from headwater.connect.postgresql_cdc.pgoutput import (
    Lsn,
    Relation,
    RelationColumn,
    ReplicaIdentity,
    decode_message,
    format_lsn,
    parse_lsn,
)
from headwater.connect.postgresql_cdc.replication_slot import (
    SlotInUse,
    SlotStatus,
    TableName,
    adbc_error,
    advance_slot,
    check_publication,
    check_server,
    check_tables,
    create_publication,
    create_slot,
    drop_publication,
    drop_slot,
    execute,
    literal,
    query,
    quoted_name,
    refusals,
    slot_status,
)
from headwater.connect.postgresql_cdc.row_changes import (
    Operation,
    RowChange,
    SourceTransaction,
    TableKeys,
    TransactionAssembler,
)
from headwater.connect.postgresql_client import PostgresqlConnection, connect

_MAX_CHANGES: Final = 10_000
# Values are decoded as text, in the form that these settings of the session give them.
_SESSION: Final = (
    "SET datestyle = 'ISO'",
    "SET timezone = 'UTC'",
    "SET intervalstyle = 'iso_8601'",
    "SET extra_float_digits = 1",
    "SET bytea_output = 'hex'",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleTransactions:
    """Which transactions a snapshot contains, from the text of `pg_current_snapshot`.

    `end_lsn` is a position of the log after the snapshot was taken: later commits are not in it.
    """

    text: str
    end_lsn: Lsn

    def contains(self, xid: int, commit_lsn: Lsn) -> bool:
        """Whether a committed transaction (32-bit xid) is visible in the snapshot."""
        if commit_lsn >= self.end_lsn:
            return False
        _, xmax, listed = self.text.split(":")
        running = {int(each) & 0xFFFFFFFF for each in listed.split(",") if each}
        if xid in running:
            return False
        # The distance to xmax, as PostgreSQL compares xids that wrap around.
        return (int(xmax) - xid) & 0xFFFFFFFF in range(1, 2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcPosition:
    """How far the stream was read, and the snapshot that it follows."""

    lsn: Lsn
    snapshot: VisibleTransactions | None = None

    def after(self, transactions: Sequence[SourceTransaction]) -> "CdcPosition":
        """The position after transactions that `read` returned."""
        if not transactions:
            return self
        return self.at(transactions[-1].end_lsn)

    def at(self, lsn: Lsn) -> "CdcPosition":
        passed = self.snapshot is not None and lsn >= self.snapshot.end_lsn
        return CdcPosition(lsn=lsn, snapshot=None if passed else self.snapshot)

    def to_json(self) -> dict[str, str]:
        found = {"lsn": format_lsn(self.lsn)}
        if self.snapshot is not None:
            found["snapshot"] = self.snapshot.text
            found["snapshotEndLsn"] = format_lsn(self.snapshot.end_lsn)
        return found

    @classmethod
    def from_json(cls, value: dict[str, str]) -> "CdcPosition":
        position = cls(lsn=parse_lsn(value["lsn"]))
        if "snapshot" not in value:
            return position
        end_lsn = parse_lsn(value["snapshotEndLsn"])
        return replace(
            position, snapshot=VisibleTransactions(text=value["snapshot"], end_lsn=end_lsn)
        )


class CdcReader:
    """Reads changes of tables through one publication and one replication slot."""

    def __init__(self, uri: str, *, tables: Sequence[str], slot: str, publication: str) -> None:
        self._uri = uri
        self._tables = [TableName.parse(each) for each in tables]
        self._slot = slot
        self._publication = publication

    def create(self) -> None:
        """Check server and tables, then create the publication and the slot."""
        with self._connected() as connection:
            check_server(connection)
            check_tables(connection, self._tables)
            connection.commit()
            create_publication(connection, self._publication, self._tables)
            try:
                create_slot(connection, self._slot)
            except adbc_error():
                connection.rollback()
                drop_publication(connection, self._publication)
                raise

    def check(self) -> TableKeys:
        """Check everything that reading needs; return the primary keys of the tables."""
        with self._connected() as connection:
            check_server(connection)
            keys = check_tables(connection, self._tables)
            check_publication(connection, self._publication, self._tables)
            status = slot_status(connection, self._slot)
        if status.is_active:
            raise SlotInUse(f"replication slot {self._slot} is in use by another process")
        return keys

    def drop(self) -> None:
        """Drop slot and publication, so that PostgreSQL no longer keeps the log for them."""
        with self._connected() as connection:
            drop_slot(connection, self._slot)
            drop_publication(connection, self._publication)

    def status(self) -> SlotStatus:
        with self._connected() as connection:
            return slot_status(connection, self._slot)

    @contextmanager
    def snapshot(self) -> Iterator["TableSnapshot"]:
        """Open a consistent snapshot of all tables; the slot must exist."""
        with self._connected() as connection:
            confirmed = slot_status(connection, self._slot).confirmed_flush_lsn
            execute(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            (row,) = query(
                connection,
                "SELECT pg_current_snapshot()::text AS snapshot, "
                "(extract(epoch FROM now()) * 1000)::bigint AS now_ms",
            )
            # A statement of its own: the snapshot exists before this LSN is read.
            (end,) = query(connection, "SELECT pg_current_wal_insert_lsn()::text AS lsn")
            visible = VisibleTransactions(text=row["snapshot"], end_lsn=parse_lsn(end["lsn"]))
            yield TableSnapshot(
                connection,
                self._tables,
                position=CdcPosition(lsn=confirmed, snapshot=visible),
                snapshot_ms=row["now_ms"],
            )

    def read(
        self, position: CdcPosition, *, max_changes: int = _MAX_CHANGES
    ) -> list[SourceTransaction]:
        """Committed transactions after a position, in the order of their commits.

        `max_changes` counts messages of pgoutput; it is exceeded to return a transaction whole.
        Transactions that change none of the tables are left out.
        """
        with self._connected() as connection:
            while True:
                messages = self._peek(connection, max_changes)
                found = _transactions(messages)
                new = [each for each in found if each.changes and _is_after(position, each)]
                if new or len(messages) < max_changes:
                    return new
                # All of them precede the position, read and not confirmed, or are empty.
                max_changes *= 2

    def confirm(self, position: CdcPosition) -> None:
        """Tell PostgreSQL that everything up to a position is stored elsewhere."""
        with self._connected() as connection:
            advance_slot(connection, self._slot, position.lsn)

    def heartbeat(self, position: CdcPosition) -> CdcPosition:
        """Move a position past log that has no changes of the tables; confirm nothing.

        Other tables also fill the log that the slot holds back. A message in the log marks a place;
        if no transaction is new before it, the position moves there.
        """
        with self._connected() as connection:
            # With less, the commit would return before the message is on disk and decoded.
            execute(connection, "SET LOCAL synchronous_commit = local")
            (row,) = query(
                connection, "SELECT pg_logical_emit_message(true, 'headwater', '')::text AS lsn"
            )
            connection.commit()
        mark = parse_lsn(row["lsn"])
        waiting = self.read(position, max_changes=1)
        if mark <= position.lsn or (waiting and waiting[0].commit_lsn < mark):
            return position
        return position.at(mark)

    def _peek(self, connection: PostgresqlConnection, max_changes: int) -> list[bytes]:
        rows = query(
            connection,
            f"SELECT data FROM pg_logical_slot_peek_binary_changes({literal(self._slot)}, NULL, "
            f"{max_changes}, 'proto_version', '1', "
            f"'publication_names', {literal(quoted_name(self._publication))})",
        )
        connection.commit()
        return [row["data"] for row in rows]

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        with refusals(self._slot), closing(connect(self._uri)) as connection:
            for statement in _SESSION:
                execute(connection, statement)
            connection.commit()
            yield connection


class TableSnapshot:
    """Rows of all tables at one moment; `position` is where the stream continues."""

    def __init__(
        self,
        connection: PostgresqlConnection,
        tables: Sequence[TableName],
        *,
        position: CdcPosition,
        snapshot_ms: int,
    ) -> None:
        self._connection = connection
        self._tables = tables
        self.position = position
        self.snapshot_ms = snapshot_ms

    def rows(self) -> Iterator[RowChange]:
        """All rows, table by table, as changes of operation READ."""
        for table in self._tables:
            yield from self._table_rows(_relation(self._connection, table))

    def _table_rows(self, relation: Relation) -> Iterator[RowChange]:
        # A cast to text is not the same for all types; format() prints what pgoutput prints.
        columns = ", ".join(
            f"CASE WHEN {name} IS NOT DISTINCT FROM NULL THEN NULL ELSE format('%s', {name}) END"
            for name in (quoted_name(column.name) for column in relation.columns)
        )
        table = TableName(relation.namespace, relation.name)
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(f"SELECT {columns} FROM ONLY {table.quoted()}")
            for batch in cursor.fetch_record_batch():
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield RowChange(operation=Operation.READ, relation=relation, after=row)


def _transactions(messages: Sequence[bytes]) -> list[SourceTransaction]:
    # Each call of PostgreSQL's function sends all Relation messages again.
    assembler = TransactionAssembler()
    found = (assembler.add(decode_message(each)) for each in messages)
    return [each for each in found if each is not None]


def _is_after(position: CdcPosition, transaction: SourceTransaction) -> bool:
    if transaction.commit_lsn < position.lsn:
        return False
    snapshot = position.snapshot
    return snapshot is None or not snapshot.contains(transaction.xid, transaction.commit_lsn)


def _relation(connection: PostgresqlConnection, table: TableName) -> Relation:
    """The table as pgoutput describes it."""
    regclass = f"{literal(table.quoted())}::regclass"
    rows = query(
        connection,
        "SELECT c.oid::bigint AS oid, c.relreplident::text AS identity, a.attname::text AS name, "
        "a.atttypid::bigint AS type_oid, a.atttypmod AS type_modifier, "
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
            )
            for row in rows
        ),
    )

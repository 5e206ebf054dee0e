"""Create, check and drop the publication and the replication slot of a capture.

Every failure has one line that says what to change. A publication lists the captured tables; a slot
makes PostgreSQL keep the write-ahead log from the confirmed LSN on, so a slot that is no longer
read must be dropped.
"""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from headwater.common.exceptions import HeadwaterError
from headwater.connect.postgresql_cdc.pgoutput import Lsn, format_lsn, parse_lsn
from headwater.connect.postgresql_cdc.row_changes import TableKeys
from headwater.connect.postgresql_client import DatabaseUnavailable, PostgresqlConnection
from headwater.spark.exceptions import InvalidOption

_NO_REPLICA_IDENTITY: Final = "n"


class CaptureRefused(HeadwaterError):
    """PostgreSQL, or a setting of it, does not allow the capture."""


class SlotInUse(HeadwaterError):
    """Another process reads from the replication slot."""


class SlotLost(HeadwaterError):
    """The replication slot or its write-ahead log is gone: take a new snapshot."""


@dataclass(frozen=True, slots=True)
class TableName:
    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """Parse `schema.table`; the default schema is `public`."""
        schema, separator, table = text.partition(".")
        return cls(schema, table) if separator else cls("public", text)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    def quoted(self) -> str:
        return f"{quoted_name(self.schema)}.{quoted_name(self.table)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStatus:
    """A row of `pg_replication_slots`; the slot holds back `retained_bytes` of log."""

    confirmed_flush_lsn: Lsn
    is_active: bool
    wal_status: str
    retained_bytes: int


def quoted_name(name: str) -> str:
    """Quote one name for a statement, dots included."""
    if "\0" in name or not name:
        raise InvalidOption("a name is empty or contains a NUL character")
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text for a statement."""
    if "\0" in text:
        raise InvalidOption("a text contains a NUL character")
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@contextmanager
def refusals(slot: str) -> Iterator[None]:
    """Raise errors of PostgreSQL as one line that says what to do."""
    try:
        yield
    except adbc_error() as error:
        # The package has no type hints.
        sqlstate: str | None = getattr(error, "sqlstate", None)
        raise _refusal(slot, sqlstate, _message(error)) from error


def adbc_error() -> type[Exception]:
    """The class of the driver's errors; the driver is an optional dependency."""
    error: type[Exception] = importlib.import_module("adbc_driver_postgresql.dbapi").Error
    return error


def query(connection: PostgresqlConnection, statement: str) -> list[dict[str, Any]]:
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        rows: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
        return rows


def execute(connection: PostgresqlConnection, statement: str) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement)


def check_server(connection: PostgresqlConnection) -> None:
    """Check `wal_level` and the rights of the user."""
    (row,) = query(
        connection,
        "SELECT current_setting('wal_level') AS wal_level, current_user::text AS name, "
        "rolsuper OR rolreplication AS is_allowed FROM pg_roles WHERE rolname = current_user",
    )
    if row["wal_level"] != "logical":
        raise CaptureRefused(
            f"wal_level is {row['wal_level']}, not logical: "
            "set wal_level = logical in postgresql.conf and restart PostgreSQL"
        )
    if not row["is_allowed"]:
        raise CaptureRefused(
            f"user {row['name']} has no replication right: ALTER ROLE {row['name']} REPLICATION"
        )


def check_tables(connection: PostgresqlConnection, tables: Sequence[TableName]) -> TableKeys:
    """Check that each table exists and has a primary key and a replica identity."""
    if not tables:
        raise InvalidOption("no tables to capture")
    keys: dict[tuple[str, str], tuple[str, ...]] = {}
    for table in tables:
        found = query(
            connection,
            "SELECT c.relreplident::text AS identity, c.relkind::text AS kind, "
            "has_table_privilege(c.oid, 'SELECT') AS is_readable FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') "
            f"AND n.nspname = {literal(table.schema)} AND c.relname = {literal(table.table)}",
        )
        if not found:
            raise CaptureRefused(f"there is no table {table}")
        if found[0]["kind"] == "p":
            raise CaptureRefused(f"table {table} is partitioned: name its partitions instead")
        if not found[0]["is_readable"]:
            raise CaptureRefused(f"no right to read table {table}: GRANT SELECT ON {table}")
        columns = query(
            connection,
            "SELECT a.attname::text AS name FROM pg_index i "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
            f"WHERE i.indisprimary AND i.indrelid = {literal(table.quoted())}::regclass "
            "ORDER BY array_position(i.indkey::int2[], a.attnum)",
        )
        if not columns:
            raise CaptureRefused(
                f"table {table} has no primary key: its rows would have no record key"
            )
        if found[0]["identity"] == _NO_REPLICA_IDENTITY:
            raise CaptureRefused(
                f"table {table} has REPLICA IDENTITY NOTHING, so updates and deletes fail: "
                f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT"
            )
        keys[table.schema, table.table] = tuple(row["name"] for row in columns)
    return TableKeys(keys)


def create_publication(
    connection: PostgresqlConnection, publication: str, tables: Sequence[TableName]
) -> None:
    listed = ", ".join(table.quoted() for table in tables)
    execute(connection, f"CREATE PUBLICATION {quoted_name(publication)} FOR TABLE {listed}")
    connection.commit()


def drop_publication(connection: PostgresqlConnection, publication: str) -> None:
    execute(connection, f"DROP PUBLICATION IF EXISTS {quoted_name(publication)}")
    connection.commit()


def check_publication(
    connection: PostgresqlConnection, publication: str, tables: Sequence[TableName]
) -> None:
    """Check that a publication exists and has all tables."""
    if not query(
        connection, f"SELECT 1 FROM pg_publication WHERE pubname = {literal(publication)}"
    ):
        raise CaptureRefused(f"there is no publication {publication}: create it")
    rows = query(
        connection,
        "SELECT schemaname::text AS schema, tablename::text AS table FROM pg_publication_tables "
        f"WHERE pubname = {literal(publication)}",
    )
    published = {TableName(row["schema"], row["table"]) for row in rows}
    for table in tables:
        if table not in published:
            raise CaptureRefused(
                f"publication {publication} does not have table {table}: "
                f"ALTER PUBLICATION {publication} ADD TABLE {table}"
            )


def create_slot(connection: PostgresqlConnection, slot: str) -> Lsn:
    """Create a slot; every transaction that commits after the returned LSN is decoded."""
    (row,) = query(
        connection,
        "SELECT lsn::text AS lsn "
        f"FROM pg_create_logical_replication_slot({literal(slot)}, 'pgoutput')",
    )
    connection.commit()
    return parse_lsn(row["lsn"])


def drop_slot(connection: PostgresqlConnection, slot: str) -> None:
    """Drop a slot, if it exists."""
    query(
        connection,
        "SELECT count(*) FROM (SELECT pg_drop_replication_slot(slot_name) "
        f"FROM pg_replication_slots WHERE slot_name = {literal(slot)}) AS dropped",
    )
    connection.commit()


def slot_status(connection: PostgresqlConnection, slot: str) -> SlotStatus:
    rows = query(
        connection,
        "SELECT confirmed_flush_lsn::text AS lsn, active, wal_status, database::text, "
        "current_database()::text AS here, plugin::text, "
        "pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint AS retained "
        f"FROM pg_replication_slots WHERE slot_name = {literal(slot)}",
    )
    connection.commit()
    if not rows:
        raise SlotLost(f"there is no replication slot {slot}: create it and take a new snapshot")
    row = rows[0]
    if row["plugin"] != "pgoutput" or row["database"] != row["here"]:
        raise CaptureRefused(
            f"replication slot {slot} is of plugin {row['plugin']} in database {row['database']}, "
            f"not of pgoutput in {row['here']}: choose another name"
        )
    if row["wal_status"] == "lost" or row["lsn"] is None:
        raise SlotLost(
            f"replication slot {slot} has lost its write-ahead log: drop it, create it and take a "
            "new snapshot"
        )
    return SlotStatus(
        confirmed_flush_lsn=parse_lsn(row["lsn"]),
        is_active=row["active"],
        wal_status=row["wal_status"],
        retained_bytes=row["retained"],
    )


def advance_slot(connection: PostgresqlConnection, slot: str, lsn: Lsn) -> None:
    """Confirm all transactions up to an LSN; confirming one again changes nothing."""
    if lsn > slot_status(connection, slot).confirmed_flush_lsn:
        query(
            connection,
            "SELECT end_lsn::text FROM "
            f"pg_replication_slot_advance({literal(slot)}, {literal(format_lsn(lsn))})",
        )
        connection.commit()


def _refusal(slot: str, sqlstate: str | None, message: str) -> HeadwaterError:
    match sqlstate:
        case "55006":
            return SlotInUse(f"replication slot {slot} is in use by another process: {message}")
        case "42501":
            return CaptureRefused(f"missing right: {message}")
        case "42704" if "publication" in message:
            return CaptureRefused(f"{message}: create it")
        case "42704":
            return SlotLost(f"{message}: create it and take a new snapshot")
        case "55000" if "replication slot" in message:
            return SlotLost(f"{message}: drop slot {slot}, create it and take a new snapshot")
        case None:
            return DatabaseUnavailable(message)
        case _:
            return CaptureRefused(f"PostgreSQL refused: {message} (SQLSTATE {sqlstate})")


def _message(error: Exception) -> str:
    """PostgreSQL's own line, without the statement."""
    first = str(error).splitlines()[0]
    return first.rpartition("ERROR:")[2].strip() or first

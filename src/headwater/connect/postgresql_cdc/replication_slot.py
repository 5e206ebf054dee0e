"""Create, check and drop the publication and the replication slot of a capture.

Every failure has one line that says what to change. A publication lists the captured tables; a slot
makes PostgreSQL keep the write-ahead log from the confirmed LSN on, so a slot that is no longer
read must be dropped.
"""

import importlib
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headwater.common.exceptions import HeadwaterError
from headwater.connect.postgresql_cdc.pgoutput import Lsn, format_lsn, parse_lsn
from headwater.connect.postgresql_cdc.row_changes import TableKeys
from headwater.connect.postgresql_client import DatabaseUnavailable, check_uri
from headwater.spark.exceptions import InvalidOption

_NO_REPLICA_IDENTITY: Final = "n"
_OLD_TRANSACTIONS_S: Final = 60
_POLL_S: Final = 0.1
# Connection exceptions, and a server that starts, stops or has crashed.
_UNAVAILABLE: Final = ("08", "57P")
# Values are decoded as text, in the form that these settings of a session give them.
SESSION_SETTINGS: Final = {
    "datestyle": "ISO",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}


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


class SqlConnection(Protocol):
    """The part of psycopg's connections that is used here."""

    def execute(self, query: str, params: Any = None) -> Any: ...
    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


@contextmanager
def refusals(slot: str) -> Iterator[None]:
    """Raise errors of PostgreSQL as one line that says what to do."""
    try:
        yield
    except driver_errors() as error:
        sqlstate: str | None = getattr(error, "sqlstate", None)
        raise refusal(slot, sqlstate, _message(error)) from error


@contextmanager
def sql_connection(uri: str, slot: str) -> Iterator[SqlConnection]:
    """A connection whose texts have the form that pgoutput's have."""
    check_uri(uri)
    psycopg = psycopg_module()
    settings = " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items())
    with refusals(slot):
        connection: SqlConnection = psycopg.connect(
            uri, options=settings, client_encoding="utf8", application_name="headwater"
        )
        with closing(connection):
            yield connection


def psycopg_module() -> Any:
    """The package psycopg, which is an optional dependency."""
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        raise InvalidOption("psycopg is not installed: pip install headwater[connect]") from error


def driver_errors() -> tuple[type[Exception], ...]:
    """Return the errors of psycopg (statements) and ADBC (snapshot rows)."""
    adbc: type[Exception] = importlib.import_module("adbc_driver_postgresql.dbapi").Error
    other: type[Exception] = psycopg_module().Error
    return other, adbc


def query(connection: SqlConnection, statement: str) -> list[dict[str, Any]]:
    cursor = connection.execute(statement)
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def execute(connection: SqlConnection, statement: str) -> None:
    connection.execute(statement)


def check_server(connection: SqlConnection) -> None:
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


def check_tables(connection: SqlConnection, tables: Sequence[TableName]) -> TableKeys:
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
    connection: SqlConnection, publication: str, tables: Sequence[TableName]
) -> None:
    listed = ", ".join(table.quoted() for table in tables)
    execute(connection, f"CREATE PUBLICATION {quoted_name(publication)} FOR TABLE {listed}")
    connection.commit()


def add_to_publication(
    connection: SqlConnection, publication: str, tables: Sequence[TableName]
) -> None:
    """Add missing tables; wait until all their later changes are decoded.

    Note: changes that a transaction made before its table was published are not decoded, even if
    it commits later. So a snapshot must not be taken before such transactions have ended.
    """
    published = published_tables(connection, publication)
    missing = [table for table in tables if table not in published]
    if not missing:
        return
    listed = ", ".join(table.quoted() for table in missing)
    execute(connection, f"ALTER PUBLICATION {quoted_name(publication)} ADD TABLE {listed}")
    (row,) = query(connection, "SELECT pg_current_xact_id()::text AS xid")
    connection.commit()
    until_s = time.monotonic() + _OLD_TRANSACTIONS_S
    while True:
        (now,) = query(
            connection,
            f"SELECT pg_snapshot_xmin(pg_current_snapshot()) > {literal(row['xid'])}::xid8 AS done",
        )
        connection.commit()
        if now["done"]:
            return
        if time.monotonic() > until_s:
            raise CaptureRefused(
                f"table {missing[0]} is now published, but older transactions are still open: "
                "end them and start again"
            )
        time.sleep(_POLL_S)


def published_tables(connection: SqlConnection, publication: str) -> set[TableName]:
    rows = query(
        connection,
        "SELECT schemaname::text AS schema, tablename::text AS table FROM pg_publication_tables "
        f"WHERE pubname = {literal(publication)}",
    )
    return {TableName(row["schema"], row["table"]) for row in rows}


def drop_publication(connection: SqlConnection, publication: str) -> None:
    execute(connection, f"DROP PUBLICATION IF EXISTS {quoted_name(publication)}")
    connection.commit()


def has_publication(connection: SqlConnection, publication: str) -> bool:
    return bool(
        query(connection, f"SELECT 1 FROM pg_publication WHERE pubname = {literal(publication)}")
    )


def has_slot(connection: SqlConnection, slot: str) -> bool:
    return bool(
        query(connection, f"SELECT 1 FROM pg_replication_slots WHERE slot_name = {literal(slot)}")
    )


def check_publication(
    connection: SqlConnection, publication: str, tables: Sequence[TableName]
) -> None:
    """Check that a publication exists and has all tables."""
    if not has_publication(connection, publication):
        raise CaptureRefused(f"there is no publication {publication}: create it")
    published = published_tables(connection, publication)
    for table in tables:
        if table not in published:
            raise CaptureRefused(
                f"publication {publication} does not have table {table}: "
                f"ALTER PUBLICATION {publication} ADD TABLE {table}"
            )


def key_is_after(
    connection: SqlConnection,
    table: TableName,
    names: Sequence[str],
    key: Sequence[str],
    bound: Sequence[str],
) -> bool:
    """Compare two primary keys as the table's index does."""
    (row,) = query(
        connection,
        f"SELECT {key_condition(connection, table, names, bound, key)} AS is_after",
    )
    return bool(row["is_after"])


def key_condition(
    connection: SqlConnection,
    table: TableName,
    names: Sequence[str],
    bound: Sequence[str],
    key: Sequence[str] | None = None,
) -> str:
    """SQL: whether a key, by default that of the row, is after another one."""
    rows = query(
        connection,
        "SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type, "
        "(SELECT quote_ident(n.nspname) || '.' || quote_ident(c.collname) FROM pg_collation c "
        "JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = a.attcollation) AS collation "
        f"FROM pg_attribute a WHERE a.attrelid = {literal(table.quoted())}::regclass "
        "AND a.attnum > 0 AND NOT a.attisdropped",
    )
    types = {row["name"]: row for row in rows}

    def typed(texts: Sequence[str]) -> str:
        values = []
        for name, text in zip(names, texts, strict=True):
            value = f"{literal(text)}::{types[name]['type']}"
            collation = types[name]["collation"]
            values.append(value if collation is None else f"{value} COLLATE {collation}")
        return f"({', '.join(values)})"

    left = f"({', '.join(map(quoted_name, names))})" if key is None else typed(key)
    return f"{left} > {typed(bound)}"


def create_slot(connection: SqlConnection, slot: str) -> Lsn:
    """Create a slot; every transaction that commits after the returned LSN is decoded."""
    (row,) = query(
        connection,
        "SELECT lsn::text AS lsn "
        f"FROM pg_create_logical_replication_slot({literal(slot)}, 'pgoutput')",
    )
    connection.commit()
    return parse_lsn(row["lsn"])


def drop_slot(connection: SqlConnection, slot: str) -> None:
    """Drop a slot, if it exists."""
    query(
        connection,
        "SELECT count(*) FROM (SELECT pg_drop_replication_slot(slot_name) "
        f"FROM pg_replication_slots WHERE slot_name = {literal(slot)}) AS dropped",
    )
    connection.commit()


def slot_status(connection: SqlConnection, slot: str) -> SlotStatus:
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


def advance_slot(connection: SqlConnection, slot: str, lsn: Lsn) -> None:
    """Confirm all transactions up to an LSN; confirming one again changes nothing."""
    if lsn > slot_status(connection, slot).confirmed_flush_lsn:
        query(
            connection,
            "SELECT end_lsn::text FROM "
            f"pg_replication_slot_advance({literal(slot)}, {literal(format_lsn(lsn))})",
        )
        connection.commit()


def refusal(slot: str, sqlstate: str | None, message: str) -> HeadwaterError:
    """Return the failure for an error; without SQLSTATE the connection was lost."""
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
        case _ if sqlstate.startswith(_UNAVAILABLE):
            return DatabaseUnavailable(f"PostgreSQL is not available: {message}")
        case _:
            return CaptureRefused(f"PostgreSQL refused: {message} (SQLSTATE {sqlstate})")


def _message(error: Exception) -> str:
    """PostgreSQL's own line, without the statement."""
    first = str(error).splitlines()[0]
    return first.rpartition("ERROR:")[2].strip() or first

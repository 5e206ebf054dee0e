"""A random workload on PostgreSQL tables, and what a mirror of them must show.

Writers change the same rows in transactions of several statements, roll some back, and change the
tables: they add, drop, widen and rename columns. One table is truncated now and then. A seed
determines what each writer does, though not how the writers interleave.
"""

import hashlib
import json
import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg

TABLES = ("alpha", "beta")
FULL_IDENTITY = "beta"
# Its topic needs a single partition: a truncation has no order among several.
TRUNCATED = "gamma"
_CREATE = (
    "CREATE TABLE {} (id int, part text, v text, n numeric, at timestamptz, raw bytea, "
    "PRIMARY KEY (part, id))"
)
_KEYS = 12
_RETRY_S = 0.2


def create_tables(uri: str, schema: str, tables: Sequence[str] = TABLES) -> list[str]:
    """Create the tables; return their names."""
    names = [f"{schema}.{table}" for table in tables]
    with closing(psycopg.connect(uri, autocommit=True)) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for name in names:
            connection.execute(_CREATE.format(name))
            # Large values are TOASTed: an update that leaves one unchanged does not send it.
            connection.execute(f"ALTER TABLE {name} ALTER COLUMN v SET STORAGE EXTERNAL")
            if name.endswith(FULL_IDENTITY):
                connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a writer does besides its statements on single keys."""

    keys: int = _KEYS
    # Chance of a statement that changes the table.
    ddl: float = 0
    # Chance of a statement that changes a third of all rows.
    bulk: float = 0
    # Pause after each transaction.
    pause_s: float = 0


class Writer(threading.Thread):
    """Runs a number of transactions, or until `stop`, whatever happens to the server."""

    def __init__(
        self, uri: str, tables: Sequence[str], *, seed: int, load: Load, transactions: int = 10**9
    ) -> None:
        super().__init__()
        self._uri = uri
        self._tables = tables
        self._random = random.Random(seed)
        self._transactions = transactions
        self._load = load
        self._added: dict[str, list[str]] = {table: [] for table in tables}
        self._next_column = 0
        self.done = 0
        self.failures = 0
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        while self._has_more():
            try:
                with closing(psycopg.connect(self._uri)) as connection:
                    connection.execute("SET lock_timeout = '5s'")
                    while self._has_more():
                        self._transaction(connection)
                        self.done += 1
                        self._stopped.wait(self._load.pause_s)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                # The server was killed, or two writers waited for each other.
                self.failures += 1
                self._stopped.wait(_RETRY_S)
            except psycopg.Error:
                # A column was dropped meanwhile, or a key is taken.
                self.failures += 1

    def _has_more(self) -> bool:
        return self.done < self._transactions and not self._stopped.is_set()

    def _transaction(self, connection: psycopg.Connection[Any]) -> None:
        for _ in range(self._random.randint(1, 5)):
            connection.execute(self._statement())
        if self._random.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()

    def _statement(self) -> str:
        table = self._random.choice(self._tables)
        if self._random.random() < self._load.ddl:
            return self._ddl(table)
        number, part = self._key(), self._random.choice("ab")
        other, value = self._key(), self._random.randrange(10_000)
        if self._random.random() < self._load.bulk:
            if table.endswith(TRUNCATED):
                return f"TRUNCATE {table}"
            return f"UPDATE {table} SET n = {value} WHERE id % 3 = {value % 3}"
        match self._random.randrange(8):
            case 0:
                return f"DELETE FROM {table} WHERE id = {number} AND part = '{part}'"
            case 1:
                unless = f"NOT EXISTS (SELECT 1 FROM {table} WHERE id = {other} AND part = 'a')"
                # Without the old row, PostgreSQL does not send a large value under the new key.
                also = "" if table.endswith(FULL_IDENTITY) else ", v = 'moved'"
                return (
                    f"UPDATE {table} SET id = {other}, part = 'a'{also} "
                    f"WHERE id = {number} AND part = '{part}' AND {unless}"
                )
            case 2:
                return (
                    f"UPDATE {table} SET v = repeat('{value} ', {value % 900}) WHERE id = {number}"
                )
            case 3:
                return f"UPDATE {table} SET n = {value} / 7.0, at = now() WHERE id = {number}"
            case _:
                return (
                    f"INSERT INTO {table} (id, part, v, n, at, raw) VALUES ({number}, '{part}', "
                    f"'ü{value}', {value}.50, now(), decode('{value:08x}', 'hex')) "
                    "ON CONFLICT (part, id) DO UPDATE SET v = excluded.v, raw = NULL"
                )

    def _key(self) -> int:
        """A key; half of the time one of a few, so that writers meet."""
        return self._random.randrange(self._random.choice((_KEYS, self._load.keys)))

    def _ddl(self, table: str) -> str:
        added = self._added[table]
        match self._random.randrange(4):
            case 0 if added:
                name = added.pop()
                return f"ALTER TABLE {table} DROP COLUMN IF EXISTS {name}"
            case 1 if added:
                name = self._random.choice(added)
                return f"ALTER TABLE {table} ALTER COLUMN {name} TYPE bigint"
            case 2 if added:
                old, new = added.pop(), self._column()
                added.append(new)
                # Rows must be written for the feed to have the values under the new name.
                return (
                    f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}; "
                    f"UPDATE {table} SET {new} = {new}"
                )
            case _:
                name = self._column()
                added.append(name)
                return (
                    f"ALTER TABLE {table} ADD COLUMN {name} int; "
                    f"UPDATE {table} SET {name} = id WHERE id < 6"
                )

    def _column(self) -> str:
        self._next_column += 1
        return f"c{self._next_column}"


def checksum(uri: str, table: str, columns: Sequence[str] | None = None) -> str:
    """SHA-256 of `COPY (SELECT ... ORDER BY key) TO STDOUT`."""
    names = ", ".join(columns or columns_of(uri, table))
    digest = hashlib.sha256()
    with closing(psycopg.connect(uri)) as connection:
        statement = f"COPY (SELECT {names} FROM {table} ORDER BY part, id) TO STDOUT"
        with connection.cursor().copy(statement) as copy:
            for piece in copy:
                digest.update(piece)
    return digest.hexdigest()


def columns_of(uri: str, table: str) -> list[str]:
    schema, _, name = table.partition(".")
    with closing(psycopg.connect(uri)) as connection:
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (schema, name),
        )
        return [row[0] for row in found]


@dataclass(frozen=True, slots=True)
class FedRecord:
    """A record as a consumer sees it, within the partition of its key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


def check_order(records: Iterable[FedRecord]) -> int:
    """Changes of a key come in the order of commits, and none twice; return their number."""
    last: dict[tuple[str, bytes | None], tuple[int, int, int]] = {}
    count = 0
    for record in records:
        if "__txid" not in record.headers:
            place = (0, 0, 0)
        else:
            high, _, low = record.headers["__commit_lsn"].decode().partition("/")
            lsn = int(high, 16) << 32 | int(low, 16)
            event = None if record.value is None else json.loads(record.value)["op"]
            # A key that moves away and back in one change has a delete, a tombstone and a create.
            step = 1 if event is None else 2 if event == "c" else 0
            place = (lsn, int(record.headers["__tx_order"]), step)
        key = (record.topic, record.key)
        assert key not in last or last[key] < place, f"{key} at {place} after {last[key]}"
        last[key] = place
        count += 1
    return count

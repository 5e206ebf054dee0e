"""Apply a change feed to PostgreSQL tables: upserts and deletes by primary key.

Each step loads texts into a temporary table with the columns of the target, so that PostgreSQL's
own input functions convert and check them, and then runs one statement.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from headwater.common.exceptions import HeadwaterError
from headwater.connect.postgresql_cdc.change_feed import (
    FeedStep,
    TableChanges,
    Truncation,
    text_of,
)
from headwater.connect.postgresql_cdc.replication_slot import (
    SqlConnection,
    TableName,
    execute,
    literal,
    psycopg_module,
    query,
    quoted_name,
)

_STAGE: Final = "headwater_stage"


class TargetRefused(HeadwaterError):
    """The target has no such table or column, or rejects a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A table of the target: types of its columns, by name, and its primary key."""

    name: TableName
    types: Mapping[str, str]
    key: tuple[str, ...]


class ChangeFeedWriter:
    """Writes the steps of a feed in the open transaction of a connection."""

    def __init__(self, connection: SqlConnection, *, adds_columns: bool) -> None:
        self._connection = connection
        self._adds_columns = adds_columns
        self._targets: dict[str, _Target] = {}

    def apply(self, step: FeedStep) -> None:
        if isinstance(step, Truncation):
            self._truncate(step)
            return
        for changes in step:
            target = self._target(changes.table)
            if self._adds_columns:
                target = self._with_columns(target, changes)
            self._delete(target, changes)
            self._upsert(target, changes)

    def _truncate(self, truncation: Truncation) -> None:
        if truncation.partition > 0:
            raise TargetRefused(
                f"table {truncation.table} was truncated, which has no order among several "
                "partitions: use a topic with one partition, or skipped.operations=t at the source"
            )
        target = self._target(truncation.table)
        execute(self._connection, f"DELETE FROM {target.name.quoted()}")

    def _target(self, table: str) -> _Target:
        found = self._targets.get(table)
        if found is not None:
            return found
        name = TableName.parse(table)
        regclass = f"to_regclass({literal(name.quoted())})"
        rows = query(
            self._connection,
            "SELECT a.attname::text AS name, format_type(a.atttypid, NULL) AS type, "
            "coalesce(array_position(i.indkey::int2[], a.attnum), -1) AS key_place "
            "FROM pg_attribute a "
            "LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary "
            f"WHERE a.attrelid = {regclass} AND a.attnum > 0 AND NOT a.attisdropped "
            "AND a.attgenerated = '' ORDER BY a.attnum",
        )
        if not rows:
            raise TargetRefused(
                f"the target has no table {name}: create it, for example with pg_dump --schema-only"
            )
        key = sorted((row["key_place"], row["name"]) for row in rows if row["key_place"] >= 0)
        if not key:
            raise TargetRefused(f"table {name} of the target has no primary key")
        types = {row["name"]: row["type"] for row in rows}
        target = _Target(name=name, types=types, key=tuple(each for _, each in key))
        self._targets[table] = target
        return target

    def _with_columns(self, target: _Target, changes: TableChanges) -> _Target:
        """Add columns that the feed has and the target has not."""
        names = {name: None for row in changes.rows.values() if row is not None for name in row}
        missing = [name for name in names if name not in target.types]
        if not missing:
            return target
        unknown_type: type[Exception] = psycopg_module().errors.UndefinedObject
        for name in missing:
            kind = changes.types.get(name, "text")
            try:
                execute(
                    self._connection,
                    f"ALTER TABLE {target.name.quoted()} ADD COLUMN IF NOT EXISTS "
                    f"{quoted_name(name)} {kind}",
                )
            except unknown_type as error:
                raise TargetRefused(
                    f"the target has no type {kind} for column {name} of table {target.name}: "
                    "create it"
                ) from error
        del self._targets[changes.table]
        return self._target(changes.table)

    def _delete(self, target: _Target, changes: TableChanges) -> None:
        keys = [dict(key) for key, row in changes.rows.items() if row is None]
        if not keys:
            return
        self._load(target, target.key, keys)
        matches = " AND ".join(
            f"t.{quoted_name(name)} = s.{quoted_name(name)}" for name in target.key
        )
        with _refused_by(target.name):
            execute(
                self._connection,
                f"DELETE FROM {target.name.quoted()} AS t USING {_STAGE} AS s WHERE {matches}",
            )

    def _upsert(self, target: _Target, changes: TableChanges) -> None:
        groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for row in changes.rows.values():
            if row is not None:
                groups.setdefault(tuple(row), []).append(row)
        for names, rows in groups.items():
            self._load(target, names, rows)
            columns = ", ".join(map(quoted_name, names))
            key = ", ".join(map(quoted_name, target.key))
            others = [quoted_name(name) for name in names if name not in target.key]
            updates = ", ".join(f"{name} = excluded.{name}" for name in others)
            with _refused_by(target.name):
                execute(
                    self._connection,
                    f"INSERT INTO {target.name.quoted()} ({columns}) OVERRIDING SYSTEM VALUE "
                    f"SELECT {columns} FROM {_STAGE} ON CONFLICT ({key}) DO "
                    + (f"UPDATE SET {updates}" if updates else "NOTHING"),
                )

    def _load(
        self, target: _Target, names: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Load rows into the temporary table."""
        for name in (*names, *target.key):
            if name not in target.types:
                raise TargetRefused(
                    f"table {target.name} of the target has no column {name}: add it, or set "
                    "schema.evolution=basic"
                )
            if name not in names:
                raise TargetRefused(f"a change of table {target.name} has no column {name}")
        columns = ", ".join(map(quoted_name, names))
        execute(self._connection, f"DROP TABLE IF EXISTS {_STAGE}")
        execute(
            self._connection,
            f"CREATE TEMP TABLE {_STAGE} ON COMMIT DROP AS SELECT {columns} "
            f"FROM {target.name.quoted()} WITH NO DATA",
        )
        kinds = [target.types[name] for name in names]
        statement = f"COPY {_STAGE} ({columns}) FROM STDIN"
        with _refused_by(target.name), self._connection.cursor().copy(statement) as copy:
            for row in rows:
                copy.write_row(
                    [text_of(row[n], kind) for n, kind in zip(names, kinds, strict=True)]
                )


@contextmanager
def _refused_by(table: TableName) -> Iterator[None]:
    """Report values that do not fit a column or violate a constraint."""
    errors = psycopg_module().errors
    try:
        yield
    except (errors.DataError, errors.IntegrityError) as error:
        raise TargetRefused(_reason(table, error)) from error


def _reason(table: TableName, error: Any) -> str:
    """One line with the column; the context of COPY names it."""
    message = error.diag.message_primary
    context = error.diag.context or ""
    column = context.partition(", column ")[2].partition(":")[0]
    where = f"table {table}, column {column}" if column else f"table {table}"
    return f"{where} of the target: {message}"

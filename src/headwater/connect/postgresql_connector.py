"""Read and write PostgreSQL tables.

The source reads new rows by one or two increasing columns: a number, a timestamp, or a timestamp
and a number. The sink writes rows with or without a key, and records in the same transaction which
part of which batch it has written.

Note: an increasing column does not increase in the order of commits. A row whose transaction takes
longer than that of a later row would be missed, so `delayMs` ignores rows until they have that age;
that needs a timestamp column. And Spark may run two attempts at one part at the same time, so
checking in advance whether a part is written is not enough.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from headwater.connect.connector import Part, Position, Sink, Source, Split
from headwater.connect.postgresql_cdc.change_feed import (
    COLUMN_TYPES,
    Decoder,
    FeedRecord,
    reduce_feed,
)
from headwater.connect.postgresql_cdc.change_feed_writer import ChangeFeedWriter
from headwater.connect.postgresql_cdc.replication_slot import (
    execute,
    literal,
    query,
    sql_connection,
)
from headwater.connect.postgresql_client import (
    PostgresqlConnection,
    batches_of,
    connect,
    identifier,
    plain_schema,
    type_of,
)
from headwater.spark.exceptions import InvalidOption, WrongColumns

_ROWS_AT_ONCE: Final = 100_000
_WRITTEN_PARTS: Final = "headwater_batches"
_CREATE_WRITTEN_PARTS: Final = (
    f"CREATE TABLE IF NOT EXISTS {_WRITTEN_PARTS} (query_id TEXT, part BIGINT, "
    "batch_id BIGINT NOT NULL, PRIMARY KEY (query_id, part))"
)
_CLAIM: Final = (
    f"INSERT INTO {_WRITTEN_PARTS} (query_id, part, batch_id) VALUES ({{}}, {{}}, {{}}) "
    "ON CONFLICT (query_id, part) DO UPDATE SET batch_id = excluded.batch_id "
    f"WHERE {_WRITTEN_PARTS}.batch_id < excluded.batch_id RETURNING batch_id"
)
_KEEPALIVES: Final = (
    ("tcp_keepalives_idle", 30),
    ("tcp_keepalives_interval", 10),
    ("tcp_keepalives_count", 3),
)
_STAGE: Final = "headwater_stage"
_FEED: Final = "of the change feed"
# Rows in which this column is true are deleted by their key.
DELETED: Final = "__deleted"


class PostgresqlSource(Source):
    """Rows of a table, and rows that are added to it."""

    option_names: ClassVar[tuple[str, ...]] = (
        "uri",
        "table",
        "columns",
        "incrementing",
        "maxRowsPerTrigger",
        "delayMs",
    )

    def schema(self) -> pa.Schema:
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT {self._columns()} FROM {self._table()} LIMIT 0")
            return plain_schema(cursor.fetch_arrow_table().schema)

    def latest(self, start: Position) -> Position:
        with closing(self._connect()) as connection:
            kinds = self._kinds(connection)
            limit = self.options.number("maxRowsPerTrigger", _ROWS_AT_ONCE)
            found = self._at(connection, kinds, start, f"ASC LIMIT 1 OFFSET {limit - 1}")
            return found or self._at(connection, kinds, start, "DESC LIMIT 1") or start

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        return [] if start == end else [{"start": start, "end": end}]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        schema = self.schema()
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            kinds = self._kinds(connection)
            conditions, values = self._after(kinds, split["start"], 1)
            placeholders = self._placeholders(len(values) + 1)
            conditions.append(f"{self._increasing()} <= {placeholders}")
            values += _values(kinds, split["end"])
            cursor.execute(
                f"SELECT {self._columns()} FROM {self._table()} "
                f"WHERE {' AND '.join(conditions)} ORDER BY {self._order('ASC')}",
                _bound(values),
            )
            yield from batches_of(cursor.fetch_record_batch(), schema)

    def _at(
        self, connection: PostgresqlConnection, kinds: pa.Schema, start: Position, which: str
    ) -> Position | None:
        """The position of one of the rows after `start`."""
        conditions, values = self._after(kinds, start, 1)
        if self.options.get("delayMs") is not None:
            age = f"interval '{self.options.number('delayMs', 1)} milliseconds'"
            conditions.append(f"{identifier(self._names()[0])} <= now() - {age}")
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        direction, _, rest = which.partition(" ")
        with closing(connection.cursor()) as cursor:
            cursor.execute(
                f"SELECT {self._quoted()} FROM {self._table()} {where} "
                f"ORDER BY {self._order(direction)} {rest}",
                _bound(values),
            )
            rows = cursor.fetch_arrow_table()
        if not rows.num_rows:
            return None
        texts = [rows.column(number)[0] for number in range(rows.num_columns)]
        if any(not each.is_valid for each in texts):
            raise InvalidOption(f"{self._quoted()} must not be null in any row")
        return {name: _as_json(each) for name, each in zip(self._names(), texts, strict=True)}

    def _after(
        self, kinds: pa.Schema, start: Position, first_mark: int
    ) -> "tuple[list[str], list[pa.Scalar[Any]]]":
        if not start:
            return [], []
        return [f"{self._increasing()} > {self._placeholders(first_mark)}"], _values(kinds, start)

    def _kinds(self, connection: PostgresqlConnection) -> pa.Schema:
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT {self._quoted()} FROM {self._table()} LIMIT 0")
            return plain_schema(cursor.fetch_arrow_table().schema)

    def _names(self) -> tuple[str, ...]:
        names = self.options.names("incrementing")
        if not 1 <= len(names) <= 2:
            raise InvalidOption(
                "incrementing must name one or two columns whose values only increase"
            )
        return names

    def _quoted(self) -> str:
        return ", ".join(map(identifier, self._names()))

    def _increasing(self) -> str:
        return f"({self._quoted()})"

    def _order(self, direction: str) -> str:
        return ", ".join(f"{identifier(name)} {direction}" for name in self._names())

    def _placeholders(self, first: int) -> str:
        placeholders = [f"${first + number}" for number in range(len(self._names()))]
        return f"({', '.join(placeholders)})"

    def _columns(self) -> str:
        names = self.options.names("columns")
        return ", ".join(map(identifier, names)) if names else "*"

    def _table(self) -> str:
        return identifier(self.options.required("table"))

    def _connect(self) -> PostgresqlConnection:
        return connect(self.options.required("uri"))


class PostgresqlSink(Sink):
    """Write rows to a table, created if missing; or apply a change feed.

    With the option `envelope`, rows are the records of a feed that the source `postgresql-cdc` has
    written. Their tables must exist.
    """

    option_names: ClassVar[tuple[str, ...]] = (
        "uri",
        "table",
        "key",
        "envelope",
        "schema.evolution",
        "schema.registry.url",
    )

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._envelope = self.options.choice("envelope", ("none", "debezium", "flat"))
        adds = self.options.choice("schema.evolution", ("none", "basic")) == "basic"
        self._adds_columns = adds
        if self.reads_records and self.options.get("key") is not None:
            raise InvalidOption("records of a change feed have keys of their own: no option key")
        if adds and not self.reads_records:
            raise InvalidOption("schema.evolution is for a change feed: set envelope too")
        # Keys and values are Avro.
        self._registry = self.options.get("schema.registry.url")
        if self._registry is not None and self._envelope != "debezium":
            raise InvalidOption("schema.registry.url needs envelope=debezium: only events are Avro")

    @property
    def reads_records(self) -> bool:
        return self._envelope != "none"

    def prepare(self, schema: pa.Schema) -> None:
        if self.reads_records:
            self._prepare_feed(schema)
            return
        key, columns = self.options.names("key"), _content(schema)
        missing = [name for name in key if name not in columns.names]
        if missing:
            raise WrongColumns(f"the key column {missing[0]} is not among {columns.names}")
        if DELETED in schema.names and not key:
            raise WrongColumns("deleting rows needs the option key")
        parts = [f"{identifier(each.name)} {type_of(each)}" for each in columns]
        if key:
            parts.append(f"PRIMARY KEY ({_listed(key)})")
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {self._table()} ({', '.join(parts)})")
            cursor.execute(_CREATE_WRITTEN_PARTS)
            connection.commit()

    def _prepare_feed(self, schema: pa.Schema) -> None:
        for name in ("topic", "key", "value"):
            if name not in schema.names:
                raise WrongColumns(f"a change feed has a column {name}, not only {schema.names}")
        with sql_connection(self.options.required("uri"), _FEED) as connection:
            execute(connection, _CREATE_WRITTEN_PARTS)
            connection.commit()

    def _write_feed(self, part: Part, batches: Iterator[pa.RecordBatch]) -> int:
        count = 0
        with sql_connection(self.options.required("uri"), _FEED) as connection:
            for setting, value in _KEEPALIVES:
                execute(connection, f"SET {setting} = {value}")
            if not query(
                connection,
                _CLAIM.format(literal(part.query_id), part.partition, part.batch_id),
            ):
                for _ in batches:
                    pass
                return 0

            def records() -> Iterator[FeedRecord]:
                nonlocal count
                for batch in batches:
                    count += batch.num_rows
                    yield from feed_records(batch)

            writer = ChangeFeedWriter(connection, adds_columns=self._adds_columns)
            table = self.options.get("table")
            with self._decoder() as decode:
                for step in reduce_feed(
                    records(), envelope=self._envelope, table=table, decode=decode
                ):
                    writer.apply(step)
            connection.commit()
        return count

    def _decoder(self) -> AbstractContextManager[Decoder]:
        if self._registry is None:
            return nullcontext(json.loads)
        # fastavro is an optional dependency.
        from headwater.connect.postgresql_cdc.avro_events import avro_decoder

        return avro_decoder(self._registry)

    def write(self, part: Part, batches: Iterator[pa.RecordBatch]) -> int:
        if self.reads_records:
            return self._write_feed(part, batches)
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            self._set_keepalives(cursor)
            if not self._claims(cursor, part):
                # Spark fails a task that does not read its input.
                for _ in batches:
                    pass
                return 0
            count = sum(self._write_one(cursor, batch) for batch in batches if batch.num_rows)
            connection.commit()
        return count

    def _write_one(self, cursor: Any, batch: pa.RecordBatch) -> int:
        key = self.options.names("key")
        rows = last_of_each_key(pa.Table.from_batches([batch]), key)
        if DELETED in rows.schema.names:
            # Null counts as not deleted.
            is_deleted = pa.array([bool(each) for each in rows.column(DELETED).to_pylist()])
            deleted = rows.filter(is_deleted).select(list(key))
            rows = rows.filter(pc.invert(is_deleted)).drop_columns([DELETED])
            if deleted.num_rows:
                self._staged(cursor, deleted, self._deletion(key))
        if rows.num_rows:
            self._staged(cursor, rows, self._insertion(rows.schema.names, key))
        return batch.num_rows

    def _staged(self, cursor: Any, rows: pa.Table, statement: str) -> None:
        """Load rows into a temporary table, then apply one statement."""
        cursor.execute(f"DROP TABLE IF EXISTS {_STAGE}")
        cursor.adbc_ingest(_STAGE, rows, mode="create", temporary=True)
        cursor.execute(statement)

    def _insertion(self, names: Sequence[str], key: Sequence[str]) -> str:
        columns = _listed(names)
        statement = f"INSERT INTO {self._table()} ({columns}) SELECT {columns} FROM {_STAGE}"
        if not key:
            return statement
        others = [identifier(name) for name in names if name not in key]
        changes = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {changes}" if changes else "NOTHING"
        return f"{statement} ON CONFLICT ({_listed(key)}) DO {action}"

    def _deletion(self, key: Sequence[str]) -> str:
        matches = " AND ".join(
            f"{_STAGE}.{identifier(name)} = {self._table()}.{identifier(name)}" for name in key
        )
        return f"DELETE FROM {self._table()} WHERE EXISTS (SELECT 1 FROM {_STAGE} WHERE {matches})"

    def _set_keepalives(self, cursor: Any) -> None:
        """Set TCP keepalives, so that the server notices a dead client within a minute.

        Until then, another attempt would wait for the part that this client has claimed.
        """
        for setting, value in _KEEPALIVES:
            cursor.execute(f"SET {setting} = {value}")

    def _claims(self, cursor: Any, part: Part) -> bool:
        """Claim a part; False if it is already written.

        The claim is written before the rows, so that a concurrent attempt at the same part waits
        for the end of this transaction and then sees its outcome.
        """
        cursor.execute(
            _CLAIM.format("$1", "$2", "$3"), (part.query_id, part.partition, part.batch_id)
        )
        return cursor.fetchone() is not None

    def _table(self) -> str:
        return identifier(self.options.required("table"))

    def _connect(self) -> PostgresqlConnection:
        return connect(self.options.required("uri"))


def last_of_each_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Keep the last row of each key: a statement can change a row only once."""
    if not key:
        return rows
    numbered = rows.select(list(key)).append_column("__row", pa.array(range(rows.num_rows)))
    last = numbered.group_by(list(key)).aggregate([("__row", "max")]).column("__row_max")
    return rows.take(pa.array(sorted(int(each or 0) for each in last.to_pylist()), pa.int64()))


def feed_records(batch: pa.RecordBatch) -> Iterator[FeedRecord]:
    """The records in the columns of a topic source."""
    names = batch.schema.names
    nothing = [None] * batch.num_rows
    columns = [
        batch.column(name).to_pylist() if name in names else nothing
        for name in ("topic", "key", "value", "partition", "headers")
    ]
    for topic, key, value, partition, headers in zip(*columns, strict=True):
        found = [each["value"] for each in headers or () if each["key"] == COLUMN_TYPES]
        yield FeedRecord(
            topic=topic,
            key=key,
            value=value,
            partition=partition or 0,
            types=found[-1] if found else None,
        )


def _content(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each for each in schema if each.name != DELETED])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(identifier, names))


def _as_json(value: "pa.Scalar[Any]") -> Any:
    """A value as JSON; timestamps as exact integers in text."""
    if pa.types.is_temporal(value.type):
        return str(value.cast(pa.int64()).as_py())
    return value.as_py()


def _values(kinds: pa.Schema, position: Position) -> "list[pa.Scalar[Any]]":
    found = []
    for each in kinds:
        value = position[each.name]
        if pa.types.is_temporal(each.type):
            found.append(pa.scalar(int(value), pa.int64()).cast(each.type))
        else:
            found.append(pa.scalar(value, each.type))
    return found


def _bound(values: "Sequence[pa.Scalar[Any]]") -> pa.RecordBatch | None:
    if not values:
        return None
    arrays = [pa.array([each.as_py()], each.type) for each in values]
    return pa.RecordBatch.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])

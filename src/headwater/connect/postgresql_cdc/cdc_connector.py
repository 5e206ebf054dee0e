"""The source `postgresql-cdc`: committed changes of tables, as records.

A batch is a file in the spool: a chunk of a snapshot, or the changes between two positions. The
process that plans batches reads from PostgreSQL and writes the file; a task turns it into records
with the columns `topic`, `key`, `value` and `headers`. The slot is confirmed when a later batch is
planned, since Spark has then committed the one before it.

Note: changes of one key must stay in order, so one task writes all changes of a batch. Rows of a
snapshot have no order, and are written by several.
"""

import hashlib
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, Protocol

import pyarrow as pa

from headwater.common.exceptions import HeadwaterError
from headwater.common.topic_names import topic_name_error
from headwater.connect.connector import Position, Source, Split
from headwater.connect.postgresql_cdc.cdc_position import CdcPosition, KeyTexts, SnapshotRange
from headwater.connect.postgresql_cdc.cdc_reader import CdcReader
from headwater.connect.postgresql_cdc.change_feed import COLUMN_TYPES
from headwater.connect.postgresql_cdc.change_stream import TYPES_MESSAGE, CopyLimits, with_types
from headwater.connect.postgresql_cdc.debezium_envelope import (
    ChangeOrigin,
    DebeziumEnvelope,
    EventFormat,
    JsonEvents,
    SourceRecord,
    TopicRouting,
    to_json,
)
from headwater.connect.postgresql_cdc.flat_rows import FlatEnvelope
from headwater.connect.postgresql_cdc.pgoutput import (
    Begin,
    Delete,
    Insert,
    Lsn,
    Relation,
    Truncate,
    Update,
    decode_message,
)
from headwater.connect.postgresql_cdc.replication_slot import TableName
from headwater.connect.postgresql_cdc.row_changes import (
    RowChange,
    TableKeys,
    TransactionAssembler,
)
from headwater.connect.postgresql_cdc.spool import Frame, Spool, read_changes, read_rows
from headwater.connect.postgresql_cdc.table_snapshot import (
    SnapshotSession,
    chunk_schema,
    last_key,
    relation_in,
    row_reads,
)
from headwater.spark.exceptions import InvalidOption

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_COLUMNS: Final[list[tuple[str, pa.DataType]]] = [
    ("topic", pa.string()),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", pa.list_(_HEADER)),
]
RECORD_SCHEMA: Final = pa.schema(_COLUMNS)
# An idle position moves when this much of the log has passed without a change: one file of it.
_IDLE_BYTES: Final = 16 << 20
_RETAINED_WARNING_BYTES: Final = 1 << 30
_WARNING_INTERVAL_S: Final = 60
_LOG: Final = logging.getLogger(__name__)
_BATCH_RECORDS: Final = 10_000
_BATCH_BYTES: Final = 8 << 20
_SNAPSHOT_SPLITS: Final = 4
_OPERATIONS: Final = "cudt"


class SpoolLost(HeadwaterError):
    """A file that a batch needs is gone."""


class Envelope(Protocol):
    """Turns changes into records."""

    def change_records(
        self, change: RowChange, origin: ChangeOrigin, *, now_ms: int
    ) -> Iterator[SourceRecord]: ...


class PostgresqlCdcSource(Source):
    """Changes of tables, after a snapshot of their rows."""

    option_names: ClassVar[tuple[str, ...]] = (
        "uri",
        "table.include.list",
        "slot.name",
        "publication.name",
        "publication.autocreate.mode",
        "topic.prefix",
        "topics",
        "envelope",
        "format",
        "schema.registry.url",
        "snapshot.mode",
        "tombstones.on.delete",
        "skipped.operations",
        "column.propagate.source.type",
        "maxRowsPerTrigger",
        "maxBytesPerTrigger",
        "maxTransactionRows",
        "spool",
    )
    writes_records: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._uri = self.options.required("uri")
        tables = self.options.names("table.include.list")
        if not tables:
            raise InvalidOption("the option table.include.list is missing")
        self._slot = self.options.get("slot.name") or "headwater"
        self.routing = TopicRouting(
            prefix=self.options.required("topic.prefix"),
            is_one_topic=self.options.choice("topics", ("table", "one")) == "one",
        )
        self._is_flat = self.options.choice("envelope", ("debezium", "flat")) == "flat"
        self._registry = self._registry_url()
        self._has_snapshot = self.options.choice("snapshot.mode", ("initial", "no_data")) != (
            "no_data"
        )
        self._has_tombstones = (
            self.options.choice("tombstones.on.delete", ("true", "false")) == "true"
        )
        self._skipped = self.options.names("skipped.operations")
        for letter in self._skipped:
            if letter not in _OPERATIONS or len(letter) != 1:
                raise InvalidOption(
                    f"skipped.operations must be of {', '.join(_OPERATIONS)}, not {letter}"
                )
        rows = self.options.number("maxRowsPerTrigger", 100_000)
        self._limits = CopyLimits(
            rows=rows,
            size_bytes=self.options.number("maxBytesPerTrigger", 64 << 20),
            transaction_rows=max(rows, self.options.number("maxTransactionRows", 1_000_000)),
        )
        self._has_types = (
            self.options.choice("column.propagate.source.type", ("false", "true")) == "true"
        )
        self._reader = CdcReader(
            self._uri,
            tables=tables,
            slot=self._slot,
            publication=self.options.get("publication.name") or self._slot,
            is_publication_ours=self.options.choice(
                "publication.autocreate.mode", ("filtered", "disabled")
            )
            == "filtered",
            has_types=self._has_types,
        )
        self._spool = Spool(Path(self.options.get("spool") or _usual_spool(self._uri, self._slot)))
        self._snapshot: SnapshotSession | None = None
        self._committed: CdcPosition | None = None
        self._next_warning_s = 0.0
        # Files of batches before the committed one.
        self._old_files: list[Path] = []
        for topic in self.topics():
            if (reason := topic_name_error(topic)) is not None:
                raise InvalidOption(f"topic {topic}: {reason}")

    def _registry_url(self) -> str | None:
        """Where schemas of Avro are; None for JSON."""
        url = self.options.get("schema.registry.url")
        if self.options.choice("format", ("json", "avro")) == "json":
            if url is not None:
                raise InvalidOption("schema.registry.url is for format=avro")
            return None
        if self._is_flat or self.routing.is_one_topic:
            raise InvalidOption("format=avro needs envelope=debezium and topics=table")
        return self.options.required("schema.registry.url")

    def topics(self) -> list[str]:
        """The topics that records are written to."""
        if self.routing.is_one_topic:
            return [self.routing.prefix]
        return [f"{self.routing.prefix}.{each}" for each in self._reader.tables]

    def schema(self) -> pa.Schema:
        return RECORD_SCHEMA

    def check(self) -> None:
        self._reader.check_tables()

    def latest(self, start: Position) -> Position:
        position = self._position(start)
        self._warn_of_retained_log()
        waiting = self._waiting_tables(position)
        if waiting:
            end = self._next_chunk(position, waiting)
        else:
            self._close_snapshot()
            end = self._next_changes(position)
        return end.to_json() if start == {} or end != position else start

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        if not end or start == end:
            return []
        last = CdcPosition.from_json(end)
        if last.chunk is not None:
            first = CdcPosition.from_json(start).chunk if start else None
            return [] if first == last.chunk else self._snapshot_splits(last)
        first_position = self._position(start)
        if (first_position.lsn, first_position.index) == (last.lsn, last.index):
            return []
        path = self._spool.changes_path(first_position, last)
        if not path.exists():
            self._copy(first_position, until=last)
        if not path.exists():
            # Only the idle position has moved.
            return []
        return [self._split(path, last)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        path = Path(split["path"])
        if not path.exists():
            raise SpoolLost(
                f"there is no file {path}: with executors on other machines, set the option spool "
                "to a directory that all of them have"
            )
        with self._events() as events:
            envelope = self._envelope(split, events)
            if self._has_types:
                envelope = _WithTypes(envelope)
            if split.get("parts"):
                records = _row_records(path, split, envelope)
            else:
                skipped = frozenset(self._skipped)
                records = _change_records(read_changes(path), envelope, split["ms"], skipped)
            yield from _batches(records)

    def commit(self, position: Position) -> None:
        """Confirm the slot and remove files, one batch behind the position.

        Note: Spark does not force its notes of commits to the disk. After a power failure it may
        repeat the last batch, which must then still be there.
        """
        if not position:
            return
        found = CdcPosition.from_json(position)
        if self._committed is not None and found == self._committed:
            return
        if self._committed is not None and not self._waiting_tables(self._committed):
            self._reader.stream.confirm_later(self._committed)
        self._committed = found
        self._spool.remove(self._old_files)
        self._old_files = self._spool.files()

    def close(self) -> None:
        self._close_snapshot()
        self._reader.close()

    def _position(self, given: Position) -> CdcPosition:
        """The position; the first one is where the slot starts."""
        if given:
            return CdcPosition.from_json(given)
        self._reader.create_missing()
        confirmed = self._reader.status().confirmed_flush_lsn
        names = () if self._has_snapshot else tuple(str(each) for each in self._reader.tables)
        return CdcPosition(lsn=confirmed, tables=names)

    def _waiting_tables(self, position: CdcPosition) -> list[TableName]:
        """Tables whose snapshot is not complete."""
        return [each for each in self._reader.tables if str(each) not in position.tables]

    def _warn_of_retained_log(self) -> None:
        """Log a warning, at most once a minute, if the slot holds back much of the log."""
        now_s = time.monotonic()
        if now_s < self._next_warning_s:
            return
        self._next_warning_s = now_s + _WARNING_INTERVAL_S
        status = self._reader.status()
        if status.retained_bytes >= _RETAINED_WARNING_BYTES:
            _LOG.warning(
                "Replication slot retains much of the log: slot=%s retained_bytes=%d wal_status=%s",
                self._slot,
                status.retained_bytes,
                status.wal_status,
            )

    def _next_chunk(self, position: CdcPosition, waiting: Sequence[TableName]) -> CdcPosition:
        """Write the next chunk of a snapshot that has rows."""
        keys = self._reader.keys()
        for table in waiting:
            position = self._in_table(position, str(table))
            key = keys.primary_keys[table.schema, table.table]
            chunk = self._spool.next_chunk(position.chunk)
            rows, after = self._write_chunk(chunk, table, key, position.after)
            if rows < self._limits.rows:
                tables = (*position.tables, str(table))
                position = replace(position, tables=tables, table=None, after=None)
            else:
                position = replace(position, after=after)
            if rows:
                return replace(position, chunk=chunk)
        return position

    def _in_table(self, position: CdcPosition, table: str) -> CdcPosition:
        """Start or continue the snapshot of a table."""
        is_resumed = position.table == table
        if self._snapshot is not None and is_resumed:
            return position
        if self._snapshot is None:
            # A table that was added is not in the publication yet.
            self._reader.create_missing()
            self._snapshot = SnapshotSession(self._uri, self._slot, self._reader.tables)
        after = position.after if is_resumed else None
        visible = self._snapshot.visible
        fresh = SnapshotRange(table=table, after=after, visible=visible)
        ranges = (*position.ranges, fresh)
        ms = self._snapshot.snapshot_ms
        return replace(position, table=table, after=after, ranges=ranges, ms=ms)

    def _write_chunk(
        self, chunk: str, table: TableName, key: Sequence[str], after: KeyTexts | None
    ) -> tuple[int, KeyTexts | None]:
        """Write rows after a key; return their number and the last key."""
        assert self._snapshot is not None, "opened by _in_table"
        relation = self._snapshot.relation(table)
        rows = self._snapshot.rows(relation, key=key, after=after, limit=self._limits.rows)
        with self._spool.write_rows(chunk, chunk_schema(relation)) as writer:
            for batch in rows:
                writer.write(batch)
                after = last_key(batch, key)
        return writer.rows, after

    def _snapshot_splits(self, position: CdcPosition) -> list[Split]:
        assert position.chunk is not None, "checked by the caller"
        path = self._spool.rows_path(position.chunk)
        if not path.exists():
            raise SpoolLost(
                f"the snapshot was interrupted and its rows in {path} are lost: remove the "
                f"checkpoint and slot {self._slot}, and start again"
            )
        visible = position.ranges[-1].visible
        split = self._split(path, position) | {"lsn": visible.end_lsn, "parts": _SNAPSHOT_SPLITS}
        return [{**split, "part": part} for part in range(_SNAPSHOT_SPLITS)]

    def _next_changes(self, position: CdcPosition) -> CdcPosition:
        end = self._copy(position)
        if end != position:
            return end
        idle = self._reader.stream.idle_position(position)
        return idle if idle.lsn - position.lsn >= _IDLE_BYTES else position

    def _copy(self, start: CdcPosition, until: CdcPosition | None = None) -> CdcPosition:
        """Copy changes into the spool; return their end."""
        with self._spool.write_changes() as writer:
            end = self._reader.stream.copy(
                start,
                writer,
                keys=self._reader.keys(),
                limits=self._limits,
                until=until,
                now_ms=time.time_ns() // 1_000_000,
            )
            if not end.is_same_place(start):
                writer.finish(self._spool.changes_path(start, end))
        return end

    def _split(self, path: Path, position: CdcPosition) -> Split:
        keys = self._reader.keys().primary_keys
        return {
            "path": str(path),
            "ms": position.ms,
            "database": self._reader.database(),
            "keys": [[schema, table, list(names)] for (schema, table), names in keys.items()],
        }

    def _events(self) -> AbstractContextManager[EventFormat]:
        if self._registry is None:
            return nullcontext(JsonEvents())
        # fastavro is an optional dependency.
        from headwater.connect.postgresql_cdc.avro_events import avro_events

        return avro_events(self._registry)

    def _envelope(self, split: Split, events: EventFormat) -> Envelope:
        keys = TableKeys({(schema, table): tuple(n) for schema, table, n in split["keys"]})
        if self._is_flat:
            return FlatEnvelope(
                routing=self.routing, keys=keys, has_tombstones=self._has_tombstones
            )
        return DebeziumEnvelope(
            routing=self.routing,
            database=split["database"],
            keys=keys,
            has_tombstones=self._has_tombstones,
            events=events,
        )

    def _close_snapshot(self) -> None:
        if self._snapshot is not None:
            # The connection may be gone already.
            with suppress(HeadwaterError):
                self._snapshot.close()
            self._snapshot = None


class _WithTypes:
    """Adds a header with the SQL names of the column types."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._relation: Relation | None = None
        self._header = (COLUMN_TYPES, b"")

    def change_records(
        self, change: RowChange, origin: ChangeOrigin, *, now_ms: int
    ) -> Iterator[SourceRecord]:
        if change.relation is not self._relation:
            self._relation = change.relation
            types = {each.name: each.type_name for each in change.relation.columns}
            self._header = (COLUMN_TYPES, to_json(types))
        for record in self._envelope.change_records(change, origin, now_ms=now_ms):
            if change.after is None or record.value is None:
                yield record
            else:
                yield replace(record, headers=(*record.headers, self._header))


def _change_records(
    frames: Iterator[Frame], envelope: Envelope, now_ms: int, skipped: frozenset[str]
) -> Iterator[SourceRecord]:
    assembler = TransactionAssembler()
    begin: Begin | None = None
    for message, order, table_order in frames:
        if message.startswith(TYPES_MESSAGE):
            with_types(assembler.relations, message)
            continue
        decoded = decode_message(message)
        if isinstance(decoded, Begin):
            begin = decoded
        elif isinstance(decoded, Insert | Update | Delete | Truncate):
            assert begin is not None, "the spool has the Begin of each change"
            origin = ChangeOrigin(
                lsn=begin.final_lsn,
                ts_ms=begin.commit_time_us // 1000,
                xid=begin.xid,
                order=order,
                table_order=table_order,
            )
            for change in assembler.row_changes(decoded):
                if change.operation.value not in skipped:
                    yield from envelope.change_records(change, origin, now_ms=now_ms)
        elif isinstance(decoded, Relation):
            assembler.add(decoded)


def _row_records(path: Path, split: Split, envelope: Envelope) -> Iterator[SourceRecord]:
    """One part of a chunk: every so many rows of each batch."""
    origin = ChangeOrigin(lsn=Lsn(split["lsn"]), ts_ms=split["ms"])
    for batch in read_rows(path):
        relation = relation_in(batch.schema)
        size = -(-batch.num_rows // split["parts"])
        part = batch.slice(split["part"] * size, size)
        for change in row_reads(part, relation):
            yield from envelope.change_records(change, origin, now_ms=split["ms"])


def _batches(records: Iterator[SourceRecord]) -> Iterator[pa.RecordBatch]:
    """Collect records into batches of limited size."""
    collected: list[SourceRecord] = []
    size_bytes = 0
    for record in records:
        collected.append(record)
        size_bytes += len(record.value or b"")
        if len(collected) >= _BATCH_RECORDS or size_bytes >= _BATCH_BYTES:
            yield _batch(collected)
            collected, size_bytes = [], 0
    if collected:
        yield _batch(collected)


def _batch(records: Sequence[SourceRecord]) -> pa.RecordBatch:
    topic, key, value, headers = (field.type for field in RECORD_SCHEMA)
    arrays = [
        pa.array([each.topic for each in records], topic),
        pa.array([each.key for each in records], key),
        pa.array([each.value for each in records], value),
        pa.array([[{"key": k, "value": v} for k, v in each.headers] for each in records], headers),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


def _usual_spool(uri: str, slot: str) -> Path:
    """A folder for this slot of this database, under the user's state."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    database = hashlib.blake2b(uri.encode(), digest_size=6).hexdigest()
    return Path(state) / "headwater" / "cdc" / f"{slot}-{database}"

"""Reduce a feed of change records to the last change of each key of each table.

Records are Debezium's change events or flat rows, in JSON, as the source `postgresql-cdc` writes
them. Within one part of a batch, the last change of a key wins: a part has all records of its keys,
in order. A truncation ends the changes before it.

Note: an update does not have a TOASTed value that it left unchanged. It takes the value from an
earlier change of the part, and otherwise leaves that column of the target as it is.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.common.exceptions import HeadwaterError
from headwater.connect.postgresql_cdc.column_types import (
    date_text,
    time_text,
    timestamp_from_iso,
    timestamp_text,
)
from headwater.connect.postgresql_cdc.debezium_envelope import UNAVAILABLE
from headwater.connect.postgresql_cdc.flat_rows import LSN, OP, TS

COLUMN_TYPES: Final = "__debezium.source.column.types"
_DEBEZIUM: Final = "debezium"
_TIMESTAMPTZ: Final = "timestamp with time zone"
_UNAVAILABLE: Final = (UNAVAILABLE, UNAVAILABLE.encode())


class MalformedChange(HeadwaterError):
    """A record is not a change event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRecord:
    """A record of the feed."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0
    types: bytes | None = None


@dataclass(frozen=True, slots=True)
class Truncation:
    table: str
    partition: int


@dataclass(slots=True)
class TableChanges:
    """The last change of each key: the columns of a row, or None for a deleted one."""

    table: str
    rows: dict[tuple[tuple[str, Any], ...], dict[str, Any] | None] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)


FeedStep = list[TableChanges] | Truncation


Decoder = Callable[[bytes], Any]
"""Decodes a key or a value; ValueError if it is malformed."""


def reduce_feed(
    records: Iterable[FeedRecord],
    *,
    envelope: str,
    table: str | None,
    keys_max: int = 50_000,
    decode: Decoder = json.loads,
) -> Iterator[FeedStep]:
    """Steps to apply in order; a step has at most about `keys_max` keys."""
    pending: dict[str, TableChanges] = {}
    count = 0
    for record in records:
        change = _change(record, envelope, table, decode)
        if change is None:
            continue
        name, operation, row = change
        if operation == "t":
            if pending:
                yield list(pending.values())
            pending, count = {}, 0
            yield Truncation(name, record.partition)
            continue
        changes = pending.setdefault(name, TableChanges(name))
        key = _key(record, decode)
        if operation == "d":
            changes.rows[key] = None
        else:
            assert row is not None, "only deletes and truncations have no row"
            earlier = changes.rows.pop(key, None)
            changes.rows[key] = row if earlier is None else earlier | row
            if record.types is not None:
                changes.types |= json.loads(record.types)
        count += 1
        if count >= keys_max:
            yield list(pending.values())
            pending, count = {}, 0
    if pending:
        yield list(pending.values())


def _change(
    record: FeedRecord, envelope: str, table: str | None, decode: Decoder
) -> tuple[str, str, dict[str, Any] | None] | None:
    """Table, operation and row; None for a record that changes nothing."""
    if record.value is None:
        # The delete before a tombstone may be compacted away.
        name = table or _table_of_topic(record.topic)
        return None if name is None or record.key is None else (name, "d", None)
    event = _object(record, record.value, decode)
    if envelope == _DEBEZIUM:
        event = event.get("payload", event)
        operation, row = event.get("op"), event.get("after")
        source = event.get("source") or {}
        name = table or f"{source.get('schema')}.{source.get('table')}"
        row = None if row is None else {n: v for n, v in row.items() if v not in _UNAVAILABLE}
    else:
        operation = event.pop(OP, None)
        event.pop(LSN, None)
        event.pop(TS, None)
        name, row = table or _table_of_topic(record.topic), event
    if operation not in tuple("crudt") or name is None or (operation in "cru" and row is None):
        raise MalformedChange(f"a record of topic {record.topic} is not a change: {_start(record)}")
    return name, operation, row


def _table_of_topic(topic: str) -> str | None:
    """Table of Debezium's topic names: `prefix.schema.table`."""
    parts = topic.split(".")
    return ".".join(parts[-2:]) if len(parts) > 2 else None


def _key(record: FeedRecord, decode: Decoder) -> tuple[tuple[str, Any], ...]:
    if record.key is None:
        raise MalformedChange(f"a change of topic {record.topic} has no key: {_start(record)}")
    key = _object(record, record.key, decode)
    return tuple(key.get("payload", key).items())


def _object(record: FeedRecord, raw: bytes, decode: Decoder) -> dict[str, Any]:
    try:
        found = decode(raw)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        form = "a JSON object" if decode is json.loads else "an Avro record"
        raise MalformedChange(f"a record of topic {record.topic} is not {form}: {raw[:60]!r}")
    return found


def _start(record: FeedRecord) -> str:
    return repr((record.value or b"")[:60])


def text_of(value: Any, kind: str) -> str | None:
    """Return a JSON value as PostgreSQL's text for a column of a type."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if kind == "bytea" and isinstance(value, str):
        return "\\x" + base64.b64decode(value).hex()
    if kind == _TIMESTAMPTZ and isinstance(value, str):
        return timestamp_from_iso(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        convert = _TEMPORAL.get(kind)
        return str(value) if convert is None else convert(value)
    return value if isinstance(value, str) else _number_or_json(value)


def _number_or_json(value: Any) -> str:
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


_TEMPORAL: Final[Mapping[str, Any]] = {
    "date": date_text,
    "time without time zone": time_text,
    "timestamp without time zone": timestamp_text,
    _TIMESTAMPTZ: lambda micros: timestamp_text(micros) + "+00",
}

"""Find the columns of a topic: from the registry, a sample, or as told."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from headwater.client.serialization.schema_registry_serde import PREFIX_BYTES
from headwater.records.arrow_columns import decode_batches
from headwater.sql.json_columns import NULL, Kind, ObjectOf, kind_of, merged
from headwater.sql.registry_readers import RegistryReaders
from headwater.sql.sql_errors import QueryError
from headwater.sql.topic_reader import topic_span
from headwater.sql.topic_scan import FIRST_FETCH_BYTES, PartitionRange, ReaderPool
from headwater.sql.topic_table import KEY, TopicTable, before_and_from
from headwater.sql.value_readers import BytesReader, JsonReader, TextReader, ValueReader

FORMATS: Final = ("auto", "avro", "protobuf", "json-schema", "json", "text", "bytes")
_REGISTERED: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
VALUE_NAME: Final = "value"
OTHERS: Final = "*"
_PARTITIONS_MAX: Final = 8
_RECORDS_MAX: Final = 200
_MAGIC: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Formats that the user names, by topic; `*` is for all others."""

    keys: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        for each in (*self.keys.values(), *self.values.values()):
            if each not in FORMATS:
                raise QueryError(f"{each!r} is not a format; choose from {', '.join(FORMATS)}")


@dataclass(frozen=True, slots=True)
class _Sample:
    keys: list[bytes]
    values: list[bytes]


def topic_table(
    topic: str,
    partitions: int,
    *,
    readers: ReaderPool,
    registry: RegistryReaders | None,
    formats: Formats,
) -> TopicTable:
    """Derive the columns of a topic. Raises `QueryError`."""
    sample = _sample(readers, topic, partitions)
    key_format = formats.keys.get(topic, formats.keys.get(OTHERS, "auto"))
    value_format = formats.values.get(topic, formats.values.get(OTHERS, "auto"))
    key, _ = _reader(topic, "key", key_format, sample.keys, registry)
    value, origin = _reader(topic, "value", value_format, sample.values, registry)
    return TopicTable(topic=topic, key=key, value=value, origin=origin)


def _reader(
    topic: str,
    part: str,
    chosen: str,
    sample: list[bytes],
    registry: RegistryReaders | None,
) -> tuple[ValueReader, str]:
    is_key = part == "key"
    name = KEY if is_key else VALUE_NAME
    if chosen in ("auto", *_REGISTERED):
        found = _registered(topic, part, chosen, sample, registry)
        if found is not None:
            return found
        if chosen in _REGISTERED:
            reason = (
                f"the registry has no subject {topic}-{part}, and no record names a schema"
                if registry is not None
                else "name a schema registry"
            )
            raise QueryError(f"cannot read the {part} of {topic} as {chosen}: {reason}")
    if chosen == "json" or (chosen == "auto" and not is_key):
        kind = _json_kind(sample, is_sure=chosen == "json")
        if kind is not None:
            return JsonReader(kind), f"JSON, from a sample of {len(sample)} records"
        if chosen == "json" and sample:
            raise QueryError(f"no record of {topic} in a sample of {len(sample)} is a JSON object")
    is_text = chosen in ("text", "json") or (chosen == "auto" and _is_text(sample))
    return (TextReader(name), "text") if is_text else (BytesReader(name), "bytes")


def _registered(
    topic: str,
    part: str,
    chosen: str,
    sample: list[bytes],
    registry: RegistryReaders | None,
) -> tuple[ValueReader, str] | None:
    if registry is None:
        return None
    ids = [
        int.from_bytes(each[1:PREFIX_BYTES], "big")
        for each in sample
        if len(each) >= PREFIX_BYTES and each[0] == _MAGIC
    ]
    if chosen == "auto" and len(ids) * 2 < len(sample):
        # Most records are not framed, whatever the subject says.
        return None
    schema = registry.latest(f"{topic}-{part}")
    if schema is None and ids:
        schema = registry.by_id(max(ids))
    if schema is None:
        return None
    if chosen in _REGISTERED and schema.schema_type != _REGISTERED[chosen]:
        raise QueryError(f"schema {schema.id} of {topic} is {schema.schema_type}, not {chosen}")
    name = KEY if part == "key" else VALUE_NAME
    made = registry.reader(schema, name, is_whole=part == "key")
    subject = f"{schema.subject} version {schema.version}, " if schema.subject else ""
    return made, f"{made.format}, {subject}schema {schema.id}"


def _json_kind(sample: list[bytes], *, is_sure: bool) -> ObjectOf | None:
    """The type of the JSON objects in a sample, if at least half of it are."""
    kind: Kind = NULL
    count = 0
    for raw in sample:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            count += 1
            kind = merged(kind, kind_of(value))
    is_enough = count > 0 if is_sure else count * 2 >= len(sample) > 0
    return kind if is_enough and isinstance(kind, ObjectOf) and kind.fields else None


def _is_text(sample: list[bytes]) -> bool:
    for each in sample:
        try:
            each.decode()
        except UnicodeDecodeError:
            return False
    return True


def _sample(readers: ReaderPool, topic: str, partitions: int) -> _Sample:
    """Keys and values at the beginning and the end of some partitions."""
    keys: list[bytes] = []
    values: list[bytes] = []
    spans = [each for each in topic_span(readers, topic, partitions) if each.start < each.end]
    step = max(len(spans) // _PARTITIONS_MAX, 1)
    chosen = spans[::step][:_PARTITIONS_MAX]
    count = max(_RECORDS_MAX // max(len(chosen), 1), 20)
    for span in chosen:
        middle = max(span.end - count, span.start + count)
        for start, end in ((span.start, min(span.start + count, span.end)), (middle, span.end)):
            part = PartitionRange(partition=span.partition, start=start, end=end)
            for key, value in _records(readers, part) if start < end else ():
                if key is not None:
                    keys.append(key)
                if value is not None:
                    values.append(value)
    return _Sample(keys, values)


def _records(
    readers: ReaderPool, part: PartitionRange
) -> Iterator[tuple[bytes | None, bytes | None]]:
    with readers.lent() as reader:
        batches = reader.read(
            part.partition, part.start, part.end, first_fetch_bytes=FIRST_FETCH_BYTES
        )
        with closing(batches):
            for fetched in batches:
                records = decode_batches(fetched.data, fetched.batches)
                within = before_and_from(records, fetched.first_offset, part.end)
                yield from zip(
                    within.column("key").to_pylist(),
                    within.column("value").to_pylist(),
                    strict=True,
                )
                break

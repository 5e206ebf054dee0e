"""Avro by columns equals fastavro, and records do not influence each other."""

import datetime
import io
import json
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, assume, event, given, reject, settings
from hypothesis import strategies as st

from headwater.schemas.avro import resolved_schema as avro
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.formats.avro.avro_reader import PREFIX_BYTES, AvroReader
from headwater.spark.formats.avro.avro_writer import avro_writer
from headwater.spark.formats.avro.batch_walk import Batch
from headwater.spark.formats.avro.column_types import column_type, merged
from headwater.spark.formats.avro.schema_resolution import resolve
from headwater.spark.formats.avro.single_record import NotAvro, OneRecord
from tests.property.avro_schemas import Schema, edited, schemas

PREFIX = b"\0\0\0\0\7"
ROWS = 12

LOGICAL: list[Schema] = [
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    {
        "type": "fixed",
        "name": "D",
        "size": 9,
        "logicalType": "decimal",
        "precision": 20,
        "scale": 2,
    },
]


@st.composite
def with_logical_types(draw: st.DrawFn, schema: Schema) -> Schema:
    """Return a schema with logical types."""
    match schema:
        case str() if draw(st.booleans()):
            return draw(st.sampled_from(LOGICAL))
        case list():
            return [draw(with_logical_types(each)) for each in schema]
        case {"type": "array"}:
            return {**schema, "items": draw(with_logical_types(schema["items"]))}
        case {"type": "map"}:
            return {**schema, "values": draw(with_logical_types(schema["values"]))}
        case {"type": "record"}:
            fields = [
                {"name": each["name"], "type": draw(with_logical_types(each["type"]))}
                for each in schema["fields"]
            ]
            return {**schema, "fields": fields}
        case _:
            return schema


pairs = schemas.flatmap(lambda schema: st.tuples(st.just(schema), edited(schema)))
randoms = st.integers(0, 2**32).map(Random)
meaning = schemas.flatmap(with_logical_types)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs, randoms)
def test_schema_resolution_equals_fastavros(pair: tuple[Schema, Schema], random: Any) -> None:
    writer, reader = map(_parsed, pair)
    assume(writer is not None and reader is not None)
    values = _written(pair[0], random)
    found = AvroReader(reader, lambda _: writer).read(pa.array(values, pa.binary()))
    rows = found.values.to_pylist()
    for number, value in enumerate(values):
        if number in found.unreadable:
            event("unreadable")
            continue
        event("read")
        expected = _fastavro(value, pair[0], pair[1])
        assert _loose(_plain(reader, rows[number])) == _loose(expected), (value, found.values.type)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(meaning, randoms)
def test_everything_written_by_fastavro_is_read_and_written_again(
    schema: Schema, random: Any
) -> None:
    parsed = _parsed(schema)
    assume(parsed is not None)
    values = _written(schema, random)
    reader = AvroReader(parsed, lambda _: parsed)
    found = reader.read(pa.array([None, *values], pa.binary()))
    assert not found.unreadable
    rows = [_plain(parsed, each) for each in found.values.to_pylist()[1:]]
    assert rows == [_nan_free(_fastavro(value, schema, None)) for value in values]
    written = avro_writer(parsed, reader.kind, 7)(found.values)
    again = written.to_pylist()[1:]
    # A null value as a whole is a tombstone in Spark.
    if None not in again:
        assert [_nan_free(_fastavro(value, schema, None)) for value in again] == rows


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(meaning, randoms)
def test_corrupt_record_is_detected_and_the_walk_agrees_with_reading_it_alone(
    schema: Schema, random: Any
) -> None:
    parsed = _parsed(schema)
    assume(parsed is not None)
    values = [_damaged(value, random) for value in _written(schema, random)]
    node = resolve(parsed, parsed)
    batch = Batch(pa.array(values, pa.binary()))
    walk = batch.walk(PREFIX_BYTES)
    found = node.read(walk)
    walk.mark_bad(walk.at != walk.ends)
    found.validate(full=True)
    for number in np.flatnonzero(~batch.is_bad).tolist():
        record = OneRecord(values[number], PREFIX_BYTES)
        try:
            alone = node.one(record)
        except NotAvro as error:
            raise AssertionError(f"{values[number]!r} was read, and is broken: {error}") from None
        assert record.at == len(values[number])
        here: Any = found.slice(number, 1)
        there: Any = pa.array([alone], node.kind)
        # NaN is unequal to itself.
        assert here.equals(there) or _nan_free(here.to_pylist()) == _nan_free(there.to_pylist())
        event("whole")


def _damaged(value: bytes, random: Any) -> bytes:
    raw = bytearray(value)
    match random.randrange(4):
        case 0:
            del raw[random.randrange(PREFIX_BYTES, len(raw) + 1) :]
        case 1 if len(raw) > PREFIX_BYTES:
            raw[random.randrange(PREFIX_BYTES, len(raw))] = random.choice(
                [0, 1, 2, 0x7F, 0x80, 0xFF]
            )
        case 2:
            raw.insert(random.randrange(PREFIX_BYTES, len(raw) + 1), random.randrange(256))
    return bytes(raw)


def _parsed(schema: Schema) -> Any:
    """Return None if the random schema is invalid, or has no Spark type."""
    try:
        fastavro.parse_schema(json.loads(json.dumps(schema)))
        found = avro.parse_schema(json.dumps(schema))
        column_type(found)
    except (UnsupportedSchema, fastavro.schema.SchemaParseException):
        return None
    return found


def _written(schema: Schema, random: Any) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    tree = avro.parse_schema(json.dumps(schema))
    found = []
    for _ in range(ROWS):
        data = io.BytesIO(PREFIX)
        data.seek(len(PREFIX))
        try:
            fastavro.schemaless_writer(data, parsed, _value(tree, random))
            data.seek(len(PREFIX))
            fastavro.schemaless_reader(data, parsed, None)
        except ValueError:
            # fastavro tries each branch of a union. It may take a string for a date, or a symbol
            # for a UUID, which it cannot read again.
            reject()
        found.append(data.getvalue())
    return found


def _value(schema: Any, random: Any) -> Any:
    """Return a random value for fastavro."""
    match schema:
        case avro.Record():
            return {each.name: _value(each.schema, random) for each in schema.fields}
        case avro.Array():
            return [_value(schema.items, random) for _ in range(_size(random))]
        case avro.Map():
            return {_text(random): _value(schema.values, random) for _ in range(_size(random))}
        case avro.Union():
            return _value(random.choice(schema.branches), random)
        case avro.Enumeration():
            return random.choice(schema.symbols)
        case avro.Plain(logical="decimal") | avro.Fixed(logical="decimal"):
            digits = random.randrange(-(10**schema.precision) + 1, 10**schema.precision)
            return Decimal(digits >> random.randrange(40)).scaleb(-schema.scale)
        case avro.Fixed():
            return random.randbytes(schema.size_bytes)
        case avro.Plain():
            return _plain_value(schema, random)


def _plain_value(schema: avro.Plain, random: Any) -> Any:
    number = random.getrandbits(64) - 2**63
    if schema.logical is not None and "timestamp" in schema.logical:
        # Limited to Python's dates, which fastavro creates.
        return number % (1 << 40) * (1 if schema.logical.endswith("millis") else 1000)
    match schema:
        case avro.Plain(logical="uuid"):
            return str(UUID(int=random.getrandbits(128)))
        case avro.Plain(logical="date"):
            return number % 20_000
        case avro.Plain(kind="null"):
            return None
        case avro.Plain(kind="boolean"):
            return random.random() < 0.5
        case avro.Plain(kind="int"):
            return (number % (1 << 32) - (1 << 31)) >> random.randrange(32)
        case avro.Plain(kind="long"):
            return number >> random.randrange(64)
        case avro.Plain(kind="float" | "double"):
            return random.choice([0.0, -0.0, 1.5, float("inf"), float("nan"), float(number % 999)])
        case avro.Plain(kind="bytes"):
            return random.randbytes(_size(random))
        case _:
            return _text(random)


def _size(random: Any) -> int:
    # Most are small; some arrays are long enough to be read alone.
    return 40 if random.random() < 0.02 else random.randrange(4)


def _text(random: Any) -> str:
    return "".join(random.choice("aß茶🍵 ") for _ in range(random.choice([0, 1, 2, 3, 80])))


def _fastavro(value: bytes, writer: Schema, reader: Schema | None) -> Any:
    written = fastavro.parse_schema(json.loads(json.dumps(writer)))
    wanted = None if reader is None else fastavro.parse_schema(json.loads(json.dumps(reader)))
    return fastavro.schemaless_reader(io.BytesIO(value[len(PREFIX) :]), written, wanted)


def _plain(schema: Any, value: Any) -> Any:
    """Convert a column value to fastavro's form: no union members, and maps as dictionaries."""
    if value is None:
        return None
    match schema:
        case avro.Record():
            return {each.name: _plain(each.schema, value[each.name]) for each in schema.fields}
        case avro.Array():
            return [_plain(schema.items, each) for each in value]
        case avro.Map():
            return {key: _plain(schema.values, each) for key, each in value}
        case avro.Union():
            _, members = avro.nullable(schema)
            whole = merged(members)
            if whole is not None:
                return _plain(whole, value)
            chosen = [place for place, name in enumerate(value) if value[name] is not None]
            assert len(chosen) == 1
            return _plain(members[chosen[0]], value[f"member{chosen[0]}"])
        case _:
            return _nan_free(value)


def _loose(value: Any) -> Any:
    """Normalise 1 and 1.0.

    An int that is read as one of `[double, int]` is an int here and in Avro's Java library, and a
    double in fastavro, which takes the first branch that fits.
    """
    match value:
        case bool():
            return value
        case int():
            return _nan_free(float(value))
        case dict():
            return {key: _loose(each) for key, each in value.items()}
        case list():
            return [_loose(each) for each in value]
        case _:
            return _nan_free(value)


def _nan_free(value: Any) -> Any:
    """Replace NaN, which is not equal to itself, and represent times as strings."""
    match value:
        case float():
            with np.errstate(over="ignore"):
                return repr(np.float32(value)) if value == value else "nan"
        case dict():
            return {key: _nan_free(each) for key, each in value.items()}
        case list():
            return [_nan_free(each) for each in value]
        case tuple():
            return tuple(_nan_free(each) for each in value)
        case UUID():
            return str(value)
        case Decimal():
            return str(value.normalize())
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat()
        case _:
            return value

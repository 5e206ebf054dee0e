"""kio as an independent reference for messages.

kio is generated from Kafka's message schemas and has a class per version. Its fields are in wire
order, like ours, so the two are paired by position. The layout of a version always comes from kio,
never from our own classes.
"""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime, timedelta
from io import BytesIO
from random import Random
from types import NoneType
from typing import cast, get_args
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer
from kio.static.protocol import Entity

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS, Api
from headwater.protocol.schema import ProtocolField, wire_fields

# Requests between Headwater brokers, of Kafka's ZooKeeper era: kio no longer has them.
UNJUDGED = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}
JUDGED: list[Api] = [api for key, api in APIS.items() if key not in UNJUDGED]

_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}
# kio's null is a value in Kafka: the zero id, the timestamp -1.
_NEVER_NULL = ("uuid", "datetime_i64")
_LATEST_MS = 4_000_000_000_000
_OUR_TAGS = 10_000


def kio_request(api: Api, version: int) -> type:
    return load_request_schema(api.key, version)


def kio_response(api: Api, version: int) -> type:
    return load_response_schema(api.key, version)


def kio_bytes(message: object) -> bytes:
    out = BytesIO()
    entity_writer(cast("type[Entity]", type(message)))(out, cast("Entity", message))
    return out.getvalue()


def paired(
    shape: type, kio_class: type, version: int
) -> Iterator[tuple[ProtocolField, Field[object]]]:
    """Pair our fields of the version with kio's; equal counts are part of the check.

    Fields that only Headwater brokers use are not Kafka's; at their default they are not sent.
    """
    ours = [
        field
        for field in wire_fields(shape)
        if field.travels_in(version) and (field.tag is None or field.tag < _OUR_TAGS)
    ]
    theirs = fields(kio_class)
    assert [_plain(field.name) for field in ours] == [_plain(field.name) for field in theirs]
    return zip(ours, theirs, strict=True)


def _plain(name: str) -> str:
    """kio's names have no unit, and an underscore after a name of Python."""
    for old in ("v3_and_below_", "_v3_and_below"):
        name = name.replace(old, "")
    return name.removesuffix("_").removesuffix("_ms")


def random_message(rng: Random, shape: type, kio_class: type, version: int) -> object:
    """Return a message with random values in the fields that kio's version has."""
    values = {
        ours.name: _random_field(rng, ours, theirs, version)
        for ours, theirs in paired(shape, kio_class, version)
    }
    return shape(**values)


def _random_field(rng: Random, ours: ProtocolField, theirs: Field[object], version: int) -> object:
    inner, repeated, optional = unwrapped(theirs.type)
    assert repeated == ours.repeated
    kafka_type = theirs.metadata.get("kafka_type", "struct")
    if kafka_type not in _NEVER_NULL:
        assert ours.is_nullable_in(version) == optional, ours.name
        if optional and rng.random() < 0.25:
            return None
    if not repeated:
        return _random_value(rng, ours, kafka_type, inner, version)
    count = rng.choice((0, 1, 1, 2, 3, 130 if kafka_type == "int32" else 2))
    return tuple(_random_value(rng, ours, kafka_type, inner, version) for _ in range(count))


def _random_value(
    rng: Random, ours: ProtocolField, kafka_type: str, inner: type, version: int
) -> object:
    if ours.kind == "error_code":
        return rng.choice(list(ErrorCode))
    if kafka_type in _INTEGER_BITS:
        half = 1 << (_INTEGER_BITS[kafka_type] - 1)
        return rng.choice((rng.randrange(-half, half), -half, half - 1, -1, 0, 1))
    match kafka_type:
        case "struct":
            assert isinstance(ours.kind, type)
            return random_message(rng, ours.kind, inner, version)
        case "string":
            return "".join(rng.choice("aZ9.-é世🦀") for _ in range(rng.choice((0, 1, 5, 90))))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 20, 200)))
        case "bool":
            return rng.random() < 0.5
        case "uuid":
            return rng.choice((NO_TOPIC_ID, TopicId(rng.randbytes(16))))
        case "timedelta_i64":
            return rng.randrange(_LATEST_MS)
        case "datetime_i64":
            return rng.randrange(_LATEST_MS)
        case "uint16":
            return rng.randrange(1 << 16)
        case "uint32":
            return rng.randrange(1 << 32)
        case "float64":
            return rng.choice((0.0, -1.5, rng.random()))
        case _:
            raise AssertionError(f"kio has a type that we do not know: {kafka_type}")


def differing_defaults(shape: type, kio_class: type, version: int) -> Iterator[str]:
    """Return the fields whose default differs from kio's, nested ones included."""
    for ours, theirs in paired(shape, kio_class, version):
        inner, repeated, _ = unwrapped(theirs.type)
        if isinstance(ours.kind, type):
            yield from differing_defaults(ours.kind, inner, version)
        if theirs.default is MISSING or ours.name == "error_message":
            continue
        default = ours.default
        if default is not None and not repeated:
            kafka_type = theirs.metadata.get("kafka_type", "struct")
            default = _kio_value(default, kafka_type, inner, version)
        if default != theirs.default and not _is_kios_null(theirs, ours):
            yield f"{shape.__name__}.{ours.name}: {ours.default}, not {theirs.default}"


def _is_kios_null(theirs: Field[object], ours: ProtocolField) -> bool:
    return theirs.default is None and ours.default in (-1, NO_TOPIC_ID)


def as_kio(message: object, kio_class: type, version: int) -> object:
    """Convert the message to kio's class."""
    values = {}
    for ours, theirs in paired(type(message), kio_class, version):
        inner, repeated, _ = unwrapped(theirs.type)
        kafka_type = theirs.metadata.get("kafka_type", "struct")
        value = getattr(message, ours.name)
        if value is not None and repeated:
            value = tuple(_kio_value(item, kafka_type, inner, version) for item in value)
        elif value is not None:
            value = _kio_value(value, kafka_type, inner, version)
        values[theirs.name] = value
    made: object = kio_class(**values)
    return made


def _kio_value(value: object, kafka_type: str, inner: type, version: int) -> object:
    match kafka_type:
        case "struct":
            return as_kio(value, inner, version)
        case "uuid":
            return None if value == NO_TOPIC_ID else UUID(bytes=bytes(_as_bytes(value)))
        case "error_code":
            return KioErrorCode(_as_int(value))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=_as_int(value))
        case "datetime_i64":
            return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=_as_int(value))
        case _:
            return value


def _as_int(value: object) -> int:
    assert isinstance(value, int)
    return int(value)


def _as_bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def unwrapped(annotation: object) -> tuple[type, bool, bool]:
    """Return a kio field's innermost type, and if it is an array or nullable."""
    annotation, optional = _without_none(annotation)
    repeated = getattr(annotation, "__origin__", None) is tuple
    if repeated:
        # An id in an array is None if it is zero.
        annotation, is_item_optional = _without_none(get_args(annotation)[0])
        optional = optional or is_item_optional
    assert isinstance(annotation, type), annotation
    return annotation, repeated, optional


def _without_none(annotation: object) -> tuple[object, bool]:
    if NoneType not in get_args(annotation):
        return annotation, False
    (inner,) = [each for each in get_args(annotation) if each is not NoneType]
    return inner, True

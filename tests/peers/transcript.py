"""Responses of a broker as plain values that can be printed and compared.

Only values that must differ between two brokers are replaced: addresses, generated ids, texts of
error messages, times. Everything else is kept, including default values, so that a comparison
misses no field.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Final, NamedTuple

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import TruncatedBatch
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.schema import wire_fields
from headwater.records.batch_header import MAGIC, BatchHeader, read_header
from headwater.records.record_reader import read_records

Plain = str | int | float | bool | None | Sequence["Plain"] | Mapping[str, "Plain"]

# A batch ends where its length says, so the walk over an answer's records needs no more than this.
_LENGTH_START: Final = 8
_LENGTH_END: Final = 12
_MAGIC_POSITION: Final = 16
_SHOWN_BYTES: Final = 40

Rewrite = Callable[[str, Plain], Plain]
"""A field's name and value to what is shown instead."""


def plain(value: object, version: int, rewrite: Rewrite, name: str = "") -> Plain:
    """A message, or a part of one, as nested plain values, without fields of other versions."""
    if is_dataclass(value) and not isinstance(value, type):
        carried = {each.name for each in wire_fields(type(value)) if each.travels_in(version)}
        return {
            field.name: plain(getattr(value, field.name), version, rewrite, field.name)
            for field in fields(value)
            if field.name in carried
        }
    match value:
        case ErrorCode():
            return value.name
        case tuple():
            return [plain(each, version, rewrite, name) for each in value]
        case TopicId():
            return rewrite(name, "" if value == NO_TOPIC_ID else str(value))
        case memoryview() | bytes():
            return list(_batches(memoryview(value), rewrite))
        case bool() | int() | float() | str() | None:
            return rewrite(name, value)
        case _:
            raise TypeError(f"{name} is of {type(value)}")


def _batches(content: memoryview, rewrite: Rewrite) -> Iterator[Plain]:
    """The batches of a fetched range; the last one may be incomplete."""
    position = 0
    while position < len(content):
        rest = content[position:]
        if len(rest) > _MAGIC_POSITION and rest[_MAGIC_POSITION] != MAGIC:
            yield f"magic {rest[_MAGIC_POSITION]}, {len(rest)} bytes"
            return
        try:
            header = read_header(rest)
        except TruncatedBatch:
            yield f"a cut batch of {len(rest)} bytes"
            return
        if header.size_bytes > len(rest):
            yield f"{len(rest)} bytes of a batch of {header.size_bytes}"
            return
        yield _batch(rest[: header.size_bytes], header, rewrite)
        position += header.size_bytes


def _batch(content: memoryview, header: BatchHeader, rewrite: Rewrite) -> Plain:
    shown = header._asdict()
    # The checksum covers the producer id and the times, which differ between brokers. That it is
    # right is shown by the reading of the records.
    del shown["crc"]
    batch: dict[str, Plain] = {name: rewrite(name, value) for name, value in shown.items()}
    batch["records"] = [
        {
            "offset": record.offset,
            "timestamp": rewrite("timestamp", record.timestamp),
            "key": _shown(record.key),
            "value": _shown(record.value),
            "headers": [f"{key}={_shown(value)}" for key, value in record.headers],
        }
        for record in read_records(content, header)
    ]
    return batch


def _shown(content: bytes | None) -> str | None:
    if content is None:
        return None
    if len(content) > _SHOWN_BYTES:
        return f"{len(content)} bytes"
    return content.decode("utf-8", "backslashreplace")


def in_order(value: Plain) -> Plain:
    """The same value with all lists sorted."""
    match value:
        case dict():
            return {key: in_order(each) for key, each in value.items()}
        case list():
            return sorted((in_order(each) for each in value), key=repr)
        case _:
            return value


class Difference(NamedTuple):
    """A path in a transcript at which two brokers differ."""

    path: str
    kafka: Plain
    headwater: Plain

    def __str__(self) -> str:
        return f"{self.path}: Kafka {self.kafka!r}, Headwater {self.headwater!r}"


_ABSENT: Final = "(absent)"


def differences(kafka: Plain, headwater: Plain, path: str = "") -> Iterator[Difference]:
    match kafka, headwater:
        case (dict(), dict()) | (list(), list()) if bool(kafka) != bool(headwater):
            # Everything against nothing is one difference, not a hundred.
            yield Difference(path, kafka, headwater)
        case dict(), dict():
            for key in [*kafka, *(key for key in headwater if key not in kafka)]:
                ours, theirs = headwater.get(key, _ABSENT), kafka.get(key, _ABSENT)
                yield from differences(theirs, ours, f"{path}.{key}" if path else key)
        case list(), list():
            for number in range(max(len(kafka), len(headwater))):
                theirs = kafka[number] if number < len(kafka) else _ABSENT
                ours = headwater[number] if number < len(headwater) else _ABSENT
                yield from differences(theirs, ours, f"{path}[{number}]")
        case _:
            if kafka != headwater or type(kafka) is not type(headwater):
                yield Difference(path, kafka, headwater)

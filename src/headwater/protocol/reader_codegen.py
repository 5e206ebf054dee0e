"""Generate the source of a message class's reader and compile it.

    def read_Topic(buffer, position, left):
        v_index, v_leader, = unpack_27(buffer, position)
        position += 8
        length = buffer[position] - 1
        ...
        v_name = str(buffer[position:end], 'utf-8', 'replace')
        position = end
        ...
        return Topic(index=v_index, leader=v_leader, name=v_name, ...), position

Every length is compared with the rest of the buffer before anything is allocated. Tagged fields are
optional and start at their defaults; unknown ones are skipped. `left` is a list with the number of
elements that all arrays of the message together may still have; the reader rejects a message as
soon as a length field exceeds it, before the elements are read.

A step reader is a generator that yields after every `STEP_ELEMENTS` elements.
"""

from collections.abc import Callable, Generator
from struct import Struct, calcsize, unpack_from
from typing import Final, TypeVar, cast

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError, TooManyElements
from headwater.common.ids import TopicId
from headwater.protocol import primitives
from headwater.protocol.schema import Kind, ProtocolField
from headwater.protocol.struct_formats import (
    FIXED,
    has_long_arrays,
    is_fixed,
    least_bytes,
    plain_fields,
    run_format,
    runs,
    tagged_fields,
)

M = TypeVar("M")
Reader = Callable[[memoryview, int, list[int]], tuple[M, int]]
StepReader = Callable[[memoryview, int, list[int]], Generator[None, None, tuple[M, int]]]

STEP_ELEMENTS: Final = 64
"""A power of two, for a fast test."""

_ERRORS: Final = {int(code): code for code in ErrorCode}
_NAMES: Final = {
    "ProtocolError": ProtocolError,
    "TooManyElements": TooManyElements,
    "TopicId": TopicId,
    "error_of": _ERRORS.get,
    "UNKNOWN": ErrorCode.UNKNOWN_SERVER_ERROR,
    "unpack_from": unpack_from,
    "read_int8": Struct(">b").unpack_from,
    "read_int16": Struct(">h").unpack_from,
    "read_int32": Struct(">i").unpack_from,
    "read_uvarint": primitives.read_uvarint,
    "read_tag": primitives.read_tag,
    "read_tag_count": primitives.read_tag_count,
    "skip_tagged_fields": primitives.skip_tagged_fields,
}

# Conversions of values that `struct` returns.
_CONVERSIONS: Final = {"uuid": "TopicId({})", "error_code": "error_of({}, UNKNOWN)"}

# Lengths in flexible versions are stored plus one; 0 is null. Nearly all fit into a byte.
_COMPACT_LENGTH: Final = (
    "length = buffer[position] - 1",
    "position += 1",
    "if length > 126:",
    "    length, position = read_uvarint(buffer, position - 1)",
    "    length -= 1",
)
# In older versions any negative length is null, as in Kafka.
_INT16_LENGTH: Final = ("length = read_int16(buffer, position)[0]", "position += 2")
_INT32_LENGTH: Final = ("length = read_int32(buffer, position)[0]", "position += 4")
# How the bytes from `position` to `end` become a value. Like Kafka, invalid UTF-8 becomes U+FFFD.
# Records are not copied.
_VALUE_EXPRESSIONS: Final = {
    "string": "str(buffer[position:end], 'utf-8', 'replace')",
    "bytes": "bytes(buffer[position:end])",
    "records": "buffer[position:end]",
}
_LENGTH_LIMITS: Final = {"string": f" or length > {primitives.LONGEST_STRING_BYTES}"}


def reader_of(cls: type[M], version: int, flexible: bool) -> Reader[M]:
    return cast("Reader[M]", _compiled(cls, _ReaderSource(version, flexible)))


def step_reader_of(cls: type[M], version: int, flexible: bool) -> StepReader[M]:
    """Return a step reader, for a class with long arrays (see `struct_formats`)."""
    return cast("StepReader[M]", _compiled(cls, _ReaderSource(version, flexible, in_steps=True)))


def _compiled(cls: type, source: "_ReaderSource") -> object:
    name = source.define(cls)
    exec("\n".join(source.lines), source.names)
    return source.names[name]


class _ReaderSource:
    """Generated functions, one per struct, inner ones first, and their names."""

    def __init__(self, version: int, flexible: bool, *, in_steps: bool = False) -> None:
        self._in_steps = in_steps
        self.lines: list[str] = []
        self.names: dict[str, object] = dict(_NAMES)
        self._version = version
        self._flexible = flexible

    def define(self, cls: type) -> str:
        name = f"read_{cls.__name__}"
        if name in self.names:
            return name
        self.names[cls.__name__] = cls
        self.names[name] = None
        plain = plain_fields(cls, self._version)
        tagged = tagged_fields(cls, self._version)
        body = [line for run in runs(plain) for line in self._run(run)]
        if self._flexible:
            body += self._tagged(cls, tagged)
        values = ", ".join(f"{field.name}=v_{field.name}" for field in [*plain, *tagged])
        body.append(f"return {cls.__name__}({values}), position")
        self.lines += [f"def {name}(buffer, position, left):", *indented(body)]
        return name

    def _run(self, run: list[ProtocolField]) -> list[str]:
        if not is_fixed(run[0]):
            return self._value(run[0])
        targets = "".join(f"v_{field.name}, " for field in run)
        unpack = f"unpack_{len(self.names)}"
        self.names[unpack] = Struct(run_format(run)).unpack_from
        conversions = [
            f"v_{field.name} = {_CONVERSIONS[str(field.kind)].format(f'v_{field.name}')}"
            for field in run
            if field.kind in _CONVERSIONS
        ]
        return [
            f"{targets}= {unpack}(buffer, position)",
            f"position += {calcsize(run_format(run))}",
            *conversions,
        ]

    def _value(self, field: ProtocolField) -> list[str]:
        target = f"v_{field.name}"
        nullable = field.is_nullable_in(self._version)
        if field.repeated:
            return self._array(field.kind, target, nullable)
        if not isinstance(field.kind, str) and nullable:
            # As in Kafka 4.1: null is -1, but in a tagged field it is 0.
            least = 1 if field.is_tagged_in(self._version) else 0
            return [
                f"present = read_int8(buffer, position)[0] >= {least}",
                "position += 1",
                f"{target} = None",
                "if present:",
                *indented(self._single(field.kind, target, nullable)),
            ]
        return self._single(field.kind, target, nullable)

    def _single(self, kind: Kind, target: str, nullable: bool) -> list[str]:
        """Generate code to read a value that contains its size."""
        if not isinstance(kind, str):
            call = f"{self.define(kind)}(buffer, position, left)"
            if self._in_steps and has_long_arrays(kind, self._version):
                call = f"yield from {call}"
            return [f"{target}, position = {call}"]
        return [
            *self._length(_INT16_LENGTH if kind == "string" else _INT32_LENGTH),
            "if length >= 0:",
            "    end = position + length",
            f"    if end > len(buffer){_LENGTH_LIMITS.get(kind, '')}:",
            f"        raise ProtocolError('{kind} is longer than the message')",
            f"    {target} = {_VALUE_EXPRESSIONS[kind]}",
            "    position = end",
            "else:",
            f"    {_null(target, nullable)}",
        ]

    def _array(self, kind: Kind, target: str, nullable: bool) -> list[str]:
        least = least_bytes(kind, self._version, self._flexible)
        return [
            *self._length(_INT32_LENGTH),
            "if length >= 0:",
            # A lying count must not cost memory.
            f"    if length * {least} > len(buffer) - position:",
            "        raise ProtocolError('the array has more elements than the message has bytes')",
            "    left[0] -= length",
            "    if left[0] < 0:",
            "        raise TooManyElements('the request has too many elements')",
            *indented(self._elements(kind, target, least)),
            "else:",
            f"    {_null(target, nullable)}",
        ]

    def _length(self, legacy: tuple[str, ...]) -> tuple[str, ...]:
        return _COMPACT_LENGTH if self._flexible else legacy

    def _elements(self, kind: Kind, target: str, least: int) -> list[str]:
        if kind in _CONVERSIONS:
            item = _CONVERSIONS[str(kind)].format("item")
            unpacked = f"unpack_from('>' + '{FIXED[str(kind)]}' * length, buffer, position)"
            values = f"tuple([{item} for item in {unpacked}])"
            return [f"{target} = {values}", f"position += length * {least}"]
        if kind in FIXED:
            unpacked = f"unpack_from(f'>{{length}}{FIXED[str(kind)]}', buffer, position)"
            return [f"{target} = {unpacked}", f"position += length * {least}"]
        # Nested arrays have functions of their own, so `items` is not overwritten.
        return [
            "items = []",
            "for number in range(length):",
            *indented([*self._single(kind, "item", nullable=False), "items.append(item)"]),
            *(indented(STEP) if self._in_steps else ()),
            f"{target} = tuple(items)",
        ]

    def _tagged(self, cls: type, tagged: list[ProtocolField]) -> list[str]:
        if not tagged:
            # Nearly always there are none, and a call costs more than a test.
            return [
                "if buffer[position]:",
                "    position = skip_tagged_fields(buffer, position, left)",
                "else:",
                "    position += 1",
            ]
        lines = []
        for field in tagged:
            absent = f"absent_{cls.__name__}_{field.name}"
            self.names[absent] = field.absent
            lines.append(f"v_{field.name} = {absent}")
        loop = ["tag, position, tag_end = read_tag(buffer, position)"]
        for field in tagged:
            known = [line for run in runs([field]) for line in self._run(run)]
            # A size other than the value's means that the tag has another meaning.
            known += [
                "if position != tag_end:",
                "    raise ProtocolError('tagged field of a wrong size')",
            ]
            loop += [f"if tag == {field.tag}:", *indented(known)]
        loop.append("position = tag_end")
        return [
            *lines,
            "tags, position = read_tag_count(buffer, position)",
            "for _ in range(tags):",
            *indented(loop),
        ]


STEP: Final = [f"if number & {STEP_ELEMENTS - 1} == {STEP_ELEMENTS - 1}:", "    yield"]


def _null(target: str, nullable: bool) -> str:
    return (
        f"{target} = None"
        if nullable
        else "raise ProtocolError('null in a field that is not nullable')"
    )


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]

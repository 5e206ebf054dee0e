"""Generate the source of a message class's writer and compile it.

    def write_Topic(out, o):
        write_compact_string(out, o.name)
        out += pack_0(o.index, o.leader)
        ...

A field that the version does not have is omitted if it is ignorable. Otherwise it must be at its
default; any other value would be lost, and the writer raises.
"""

from collections.abc import Callable, Generator
from struct import Struct, pack
from typing import Final, TypeVar, cast

from headwater.common.exceptions import UnsupportedInVersion
from headwater.protocol import primitives
from headwater.protocol.reader_codegen import STEP, indented
from headwater.protocol.schema import Kind, ProtocolField, wire_fields
from headwater.protocol.send_parts import Output
from headwater.protocol.struct_formats import (
    FIXED,
    has_long_arrays,
    is_fixed,
    plain_fields,
    run_format,
    runs,
    tagged_fields,
)

M = TypeVar("M")
StepWriter = Callable[[Output, M], Generator[None, None, None]]

_NAMES: Final = {
    "UnsupportedInVersion": UnsupportedInVersion,
    "pack": pack,
    "uvarint": primitives.uvarint,
    "write_string": primitives.write_string,
    "write_compact_string": primitives.write_compact_string,
    "write_bytes": primitives.write_bytes,
    "write_compact_bytes": primitives.write_compact_bytes,
    "write_records": primitives.write_records,
    "write_compact_records": primitives.write_compact_records,
}


def writer_of(cls: type[M], version: int, flexible: bool) -> Callable[[Output, M], None]:
    return cast("Callable[[Output, M], None]", _compiled(cls, _WriterSource(version, flexible)))


def step_writer_of(cls: type[M], version: int, flexible: bool) -> StepWriter[M]:
    """Return a step writer, which yields after every `STEP_ELEMENTS` elements."""
    return cast("StepWriter[M]", _compiled(cls, _WriterSource(version, flexible, in_steps=True)))


def _compiled(cls: type, source: "_WriterSource") -> object:
    name = source.define(cls)
    exec("\n".join(source.lines), source.names)
    return source.names[name]


class _WriterSource:
    """Generated functions, one per struct, inner ones first, and their names."""

    def __init__(self, version: int, flexible: bool, *, in_steps: bool = False) -> None:
        self._in_steps = in_steps
        self.lines: list[str] = []
        self.names: dict[str, object] = dict(_NAMES)
        self._version = version
        self._flexible = flexible
        self._compact = "compact_" if flexible else ""

    def define(self, cls: type) -> str:
        name = f"write_{cls.__name__}"
        if name in self.names:
            return name
        self.names[name] = None
        body = [line for field in wire_fields(cls) for line in self._missing_in_version(cls, field)]
        for run in runs(plain_fields(cls, self._version)):
            body += self._run(run)
        if self._flexible:
            body += self._tagged(cls, tagged_fields(cls, self._version))
        self.lines += [f"def {name}(out, o):", *indented(body or ["pass"])]
        return name

    def _missing_in_version(self, cls: type, field: ProtocolField) -> list[str]:
        if field.travels_in(self._version) or field.ignorable:
            return []
        default = self._named("default", cls, field, field.default)
        message = f"{cls.__name__}.{field.name} does not exist in version {self._version}"
        return [
            f"if o.{field.name} != {default}:",
            f"    raise UnsupportedInVersion({message!r})",
        ]

    def _named(self, role: str, cls: type, field: ProtocolField, value: object) -> str:
        name = f"{role}_{cls.__name__}_{field.name}"
        self.names[name] = value
        return name

    def _run(self, run: list[ProtocolField]) -> list[str]:
        if not is_fixed(run[0]):
            return self._value(run[0])
        packer = f"pack_{len(self.names)}"
        self.names[packer] = Struct(run_format(run)).pack
        values = ", ".join(f"o.{field.name}" for field in run)
        return [f"out += {packer}({values})"]

    def _value(self, field: ProtocolField) -> list[str]:
        value = f"o.{field.name}"
        present = self._array(field) if field.repeated else [self._call(field.kind, value)]
        if not field.is_nullable_in(self._version):
            message = f"{field.name} cannot be null in version {self._version}"
            refusal = f"    raise UnsupportedInVersion({message!r})"
            return [f"if {value} is None:", refusal, *present]
        if isinstance(field.kind, str) and not field.repeated:
            return present
        null = r"b'\0'" if self._flexible else r"b'\xff\xff\xff\xff'"
        if not field.repeated:
            null = r"b'\0'" if field.is_tagged_in(self._version) else r"b'\xff'"
            present = ["out.append(1)", *present]
        return [f"if {value} is None:", f"    out += {null}", "else:", *indented(present)]

    def _call(self, kind: Kind, value: str) -> str:
        if not isinstance(kind, str):
            call = f"{self.define(kind)}(out, {value})"
            takes_steps = self._in_steps and has_long_arrays(kind, self._version)
            return f"yield from {call}" if takes_steps else call
        return f"write_{self._compact}{kind}(out, {value})"

    def _array(self, field: ProtocolField) -> list[str]:
        value = f"o.{field.name}"
        count = f"uvarint(len({value}) + 1)" if self._flexible else f"pack('>i', len({value}))"
        lines = [f"out += {count}"]
        if field.kind in FIXED:
            letter = FIXED[str(field.kind)]
            return [*lines, f"out += pack('>' + '{letter}' * len({value}), *{value})"]
        if self._in_steps:
            lines.append(f"for number, item in enumerate({value}):")
            lines += indented([self._call(field.kind, "item"), *STEP])
        else:
            lines += [f"for item in {value}:", *indented([self._call(field.kind, "item")])]
        return self._cached(field, lines) if field.shared else lines

    def _cached(self, field: ProtocolField, lines: list[str]) -> list[str]:
        """Generate code that caches the bytes of a shared array."""
        kept = f"kept_{len(self.names)}"
        self.names[kept] = [None, b""]
        return [
            f"if {kept}[0] is not o.{field.name}:",
            "    start = len(out)",
            *indented(lines),
            f"    {kept}[:] = o.{field.name}, bytes(memoryview(out)[start:])",
            "else:",
            f"    out += {kept}[1]",
        ]

    def _tagged(self, cls: type, tagged: list[ProtocolField]) -> list[str]:
        if not tagged:
            return ["out.append(0)"]
        lines = ["whole, tags, count = out, bytearray(), 0"]
        for field in tagged:
            write = [line for run in runs([field]) for line in self._run(run)]
            one = [
                "out = bytearray()",
                *write,
                f"tags += uvarint({field.tag}) + uvarint(len(out)) + out",
                "count += 1",
            ]
            absent = self._named("absent", cls, field, field.absent)
            lines += [f"if o.{field.name} != {absent}:", *indented(one)]
        return [*lines, "whole += uvarint(count)", "whole += tags"]

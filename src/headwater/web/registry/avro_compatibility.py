"""Whether data that was written with one Avro schema can be read with another.

Avro's rules of schema resolution, checked for every value that a writer could write. Logical types
are ignored, as resolution ignores them.

What a reader would get wrong: a pair of types that is met again inside itself is taken for
compatible. Were it not, that is found where the pair was met first.
"""

from dataclasses import dataclass, field
from typing import Final

from headwater.web.registry.avro_schema import (
    Array,
    Avro,
    Enum,
    Field,
    Fixed,
    MapOf,
    Named,
    Primitive,
    Record,
    Union,
    type_name,
)

_PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
COMPLAINTS_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Incompatibility:
    """What a reader could not read, and where it is in the reader's schema."""

    kind: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.path}: {self.reason}"


def unreadable(*, reader: Avro, writer: Avro) -> list[Incompatibility]:
    """What keeps a reader with one schema from the data of another; nothing if all can be read."""
    checking = _Checking()
    checking.check(reader, writer, "/")
    return checking.found[:COMPLAINTS_MAX]


@dataclass(slots=True)
class _Checking:
    found: list[Incompatibility] = field(default_factory=list)
    # By identity; whoever asks holds both schemas for as long as this lives. Shared with trials,
    # without which nested unions would cost twice as much with each level.
    taken_for_good: set[tuple[int, int]] = field(default_factory=set)
    failed: set[tuple[int, int]] = field(default_factory=set)
    added: list[tuple[int, int]] = field(default_factory=list)

    def check(self, reader: Avro, writer: Avro, path: str) -> None:
        if len(self.found) >= COMPLAINTS_MAX:
            return
        pair = (id(reader), id(writer))
        if pair in self.failed:
            self._mismatch(reader, writer, path)
            return
        if pair in self.taken_for_good:
            return
        self.taken_for_good.add(pair)
        self.added.append(pair)
        match reader, writer:
            case _, Union():
                for index, branch in enumerate(writer.branches):
                    self._check_branch(reader, branch, f"{path}[{index}]")
            case Union(), _:
                self._check_branch(reader, writer, path)
            case Primitive(), Primitive():
                self._check_primitives(reader, writer, path)
            case Array(), Array():
                self.check(reader.items, writer.items, _under(path, "items"))
            case MapOf(), MapOf():
                self.check(reader.values, writer.values, _under(path, "values"))
            case Fixed(), Fixed():
                if self._same_name(reader, writer, path) and reader.size != writer.size:
                    self._say(
                        "FIXED_SIZE_MISMATCH",
                        path,
                        f"the reader expects {reader.size} bytes, the writer wrote {writer.size}",
                    )
            case Enum(), Enum():
                self._check_enums(reader, writer, path)
            case Record(), Record():
                self._check_records(reader, writer, path)
            case _:
                self._mismatch(reader, writer, path)

    def _check_branch(self, reader: Avro, writer: Avro, path: str) -> None:
        """A value of one branch of the writer's: by some branch of the reader's, if it has any."""
        if not isinstance(reader, Union):
            self.check(reader, writer, path)
            return
        if not any(self._reads(branch, writer) for branch in reader.branches):
            self._say(
                "MISSING_UNION_BRANCH",
                path,
                f"no branch of the reader's union reads the writer's {type_name(writer)}",
            )

    def _reads(self, reader: Avro, writer: Avro) -> bool:
        trial = _Checking(taken_for_good=self.taken_for_good, failed=self.failed)
        trial.check(reader, writer, "/")
        if trial.found:
            self.taken_for_good.difference_update(trial.added)
            # What fails although others are taken for good fails in any case.
            self.failed.add((id(reader), id(writer)))
            return False
        self.added += trial.added
        return True

    def _check_primitives(self, reader: Primitive, writer: Primitive, path: str) -> None:
        is_same = reader.kind == writer.kind
        if not is_same and writer.kind not in _PROMOTIONS.get(reader.kind, ()):
            self._mismatch(reader, writer, path)

    def _check_enums(self, reader: Enum, writer: Enum, path: str) -> None:
        if not self._same_name(reader, writer, path):
            return
        missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
        if missing and reader.default is None:
            self._say(
                "MISSING_ENUM_SYMBOLS",
                _under(path, "symbols"),
                f"the reader's {reader.name} has no {', '.join(missing)}, and no default",
            )

    def _check_records(self, reader: Record, writer: Record, path: str) -> None:
        if not self._same_name(reader, writer, path):
            return
        written = {each.name: each for each in writer.fields}
        for index, each in enumerate(reader.fields):
            where = _under(path, f"fields/{index}")
            found = _counterpart(each, written)
            if found is not None:
                self.check(each.type, found.type, _under(where, "type"))
            elif not each.has_default:
                self._say(
                    "READER_FIELD_MISSING_DEFAULT_VALUE",
                    where,
                    f"the writer's {writer.name} has no field {each.name}, "
                    "and the reader has no default for it",
                )

    def _same_name(self, reader: Named, writer: Named, path: str) -> bool:
        if writer.name == reader.name or writer.name in reader.aliases:
            return True
        self._say(
            "NAME_MISMATCH",
            _under(path, "name"),
            f"the reader expects {reader.name}, the writer wrote {writer.name}",
        )
        return False

    def _mismatch(self, reader: Avro, writer: Avro, path: str) -> None:
        self._say(
            "TYPE_MISMATCH",
            path,
            f"the reader's type {type_name(reader)} cannot read the writer's {type_name(writer)}",
        )

    def _say(self, kind: str, path: str, reason: str) -> None:
        self.found.append(Incompatibility(kind=kind, path=path, reason=reason))


def _counterpart(of: Field, written: dict[str, Field]) -> Field | None:
    for name in (of.name, *of.aliases):
        if name in written:
            return written[name]
    return None


def _under(path: str, part: str) -> str:
    return f"{path.rstrip('/')}/{part}"

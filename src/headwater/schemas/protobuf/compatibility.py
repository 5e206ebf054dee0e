"""Decide whether data written with one Protobuf schema can be read with another.

Follows the rules of Confluent's registry, with its names and sentences. Messages are compared by
name, fields by number. Numbers of the same wire type, enums included, may replace each other, as
may strings and bytes; fields may be added, removed and renamed. Order, defaults and options are
ignored.

Note: a message of the schema's own file is compared where it is defined. A message of an imported
file is compared where a field uses it, since imports may be other versions, and then the field is
incompatible as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.schemas.protobuf.normalized_form import map_type
from headwater.schemas.protobuf.resolution import MAIN, Definition, ProtobufSchema, joined
from headwater.schemas.protobuf.schema import (
    SCALARS,
    EnumType,
    Field,
    FieldType,
    MapType,
    MessageType,
    Oneof,
)
from headwater.schemas.protobuf.tokens import invalid_protobuf

INCOMPATIBILITIES_MAX: Final = 50
STEPS_MAX: Final = 1_000_000

_NUMBER: Final = "number"
_TEXT: Final = "text"
_WIRE_KINDS: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), _NUMBER),
    **dict.fromkeys(("sint32", "sint64"), "zigzag"),
    **dict.fromkeys(("string", "bytes"), _TEXT),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}
_SENTENCES: Final = {
    "PACKAGE_CHANGED": "The package at '{path}' in the {reader} schema does not match the package "
    "in the {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema is missing a MESSAGE type at path '{path}' in the "
    "{writer} schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{path}' in the {reader} schema does not "
    "match the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{path}' in the {reader} "
    "schema does not match its kind in the {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{path}' in the {reader} "
    "schema does not match its type in the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path '{path}' in the {reader} "
    "schema does not match its label in the {writer} schema",
    "REQUIRED_FIELD_ADDED": "A required field  at path '{path}' in the {reader} schema is missing "
    "in the {writer} schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema is missing a required field at path: '{path}' "
    "in the {writer} schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema is missing a oneof field at path '{path}' in the "
    "{writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{path}' in the "
    "{reader} schema are outside a oneof in the {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path '{path}' in the {reader} schema "
    "is outside an existing oneof in the {writer} schema",
}


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """A change that breaks readers, and its path such as `#/Tea/1`."""

    kind: str
    path: str

    def described(self, *, reader: str, writer: str) -> str:
        """The message in Confluent's format; `reader` and `writer` are "new" and "old"."""
        text = _SENTENCES[self.kind].format(path=self.path, reader=reader, writer=writer)
        return f'{{errorType:"{self.kind}", description:"{text}"}}'


def unreadable(*, reader: ProtobufSchema, writer: ProtobufSchema) -> list[Incompatibility]:
    """List what keeps a reader from reading a writer's data.

    Raises `InvalidSchema` if the schemas are too large to compare.
    """
    return _Comparison(old=writer, new=reader).compared()[:INCOMPATIBILITIES_MAX]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where fields are compared: scopes of both schemas, files, and the path."""

    old_scope: str
    new_scope: str
    old_file: str
    new_file: str
    path: str

    def inside(self, name: str) -> "_Place":
        return _Place(
            joined(self.old_scope, name),
            joined(self.new_scope, name),
            self.old_file,
            self.new_file,
            f"{self.path}/{name}" if self.path != "#/" else f"#/{name}",
        )

    def at(self, *names: object) -> str:
        return "/".join((self.path, *(str(each) for each in names)))


class _Comparison:
    def __init__(self, *, old: ProtobufSchema, new: ProtobufSchema) -> None:
        self._old = old
        self._new = new
        self._found: list[Incompatibility] = []
        self._steps = 0
        self._pairs: dict[tuple[str, str], bool] = {}
        """Compared pairs of imported messages, and whether they are compatible."""

    def compared(self) -> list[Incompatibility]:
        old, new = self._old.file, self._new.file
        place = _Place(old.package, new.package, MAIN, MAIN, "#/")
        if old.package != new.package:
            self._add("PACKAGE_CHANGED", "#/")
        self._compare_messages(old.messages, new.messages, place)
        return self._found

    def _add(self, kind: str, path: str) -> None:
        self._found.append(Incompatibility(kind, path))

    def _count(self) -> None:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise invalid_protobuf("the schemas are too large to compare")

    def _compare_messages(
        self, old: tuple[MessageType, ...], new: tuple[MessageType, ...], place: _Place
    ) -> None:
        now = {each.name: each for each in new}
        for before in old:
            inner = place.inside(before.name)
            after = now.get(before.name)
            if after is not None:
                self._compare_message(before, after, inner)
            elif not before.is_map_entry:
                self._add("MESSAGE_REMOVED", inner.path)

    def _compare_message(self, old: MessageType, new: MessageType, place: _Place) -> None:
        before, after = _fields(old), _fields(new)
        self._compare_oneofs(new, before, place)
        new_oneofs = {each.name for each in new.oneofs}
        # A oneof may be removed with all its fields.
        removed_whole = {
            each.name
            for each in old.oneofs
            if each.name not in new_oneofs and not any(f.number in after for f in each.fields)
        }
        for number in sorted(before.keys() | after.keys()):
            self._count()
            if number not in after:
                field, oneof = before[number]
                if oneof is None:
                    if field.label == "required":
                        self._add("REQUIRED_FIELD_REMOVED", place.at(number))
                elif oneof.name not in removed_whole:
                    self._add("ONEOF_FIELD_REMOVED", place.at(oneof.name, number))
            elif number not in before:
                field, oneof = after[number]
                if oneof is None and field.label == "required":
                    self._add("REQUIRED_FIELD_ADDED", place.at(number))
            else:
                field, oneof = after[number]
                path = place.at(number) if oneof is None else place.at(oneof.name, number)
                self._compare_fields(before[number][0], field, place, path)
        self._compare_messages(old.messages, new.messages, place)

    def _compare_oneofs(
        self, new: MessageType, before: Mapping[int, tuple[Field, Oneof | None]], place: _Place
    ) -> None:
        """Fields that could be set together must not exclude each other now."""
        for oneof in new.oneofs:
            known = [before[each.number] for each in oneof.fields if each.number in before]
            former_oneofs = {each.name for _, each in known if each is not None}
            moved_in = sum(each is None for _, each in known)
            if len(former_oneofs) + moved_in > 1:
                many = moved_in > 1
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if many else "FIELD_MOVED_TO_EXISTING_ONEOF"
                self._add(kind, place.at(oneof.name))

    def _compare_fields(self, old: Field, new: Field, place: _Place, path: str) -> None:
        self._compare_types(old.type, new.type, place, path)
        if old.label is None or new.label is None or old.label == new.label:
            return
        # Labels of strings, bytes and messages may change.
        was = self._kind(old.type, place, is_old=True)
        now = self._kind(new.type, place, is_old=False)
        if was == now and was not in (_TEXT, "map", "message"):
            self._add("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _compare_types(self, old: FieldType, new: FieldType, place: _Place, path: str) -> None:
        self._count()
        before, after = self._map(old, place, is_old=True), self._map(new, place, is_old=False)
        was, now = self._kind(before, place, is_old=True), self._kind(after, place, is_old=False)
        is_scalar = was not in ("map", "message"), now not in ("map", "message")
        if all(is_scalar):
            if was != now:
                self._add("FIELD_SCALAR_KIND_CHANGED", path)
        elif was != now:
            self._add("FIELD_KIND_CHANGED", path)
        elif isinstance(before, MapType) and isinstance(after, MapType):
            self._compare_types(before.key, after.key, place, path)
            self._compare_types(before.value, after.value, place, path)
        else:
            self._compare_named(str(before), str(after), place, path)

    def _compare_named(self, old: str, new: str, place: _Place, path: str) -> None:
        before, after = self._find(old, place, is_old=True), self._find(new, place, is_old=False)
        if before is None or after is None:
            is_same = old == new
        elif before.local_name != after.local_name:
            is_same = False
        elif before.file == MAIN and after.file == MAIN:
            return
        else:
            is_same = self._is_compatible(before, after)
        if not is_same:
            self._add("FIELD_NAMED_TYPE_CHANGED", path)

    def _is_compatible(self, old: Definition, new: Definition) -> bool:
        """Compare imported messages, each pair once; one inside itself is compatible."""
        pair = (old.full_name, new.full_name)
        if pair not in self._pairs:
            self._pairs[pair] = True
            count = len(self._found)
            assert isinstance(old.element, MessageType)
            assert isinstance(new.element, MessageType)
            path = "#/" + old.local_name.replace(".", "/")
            place = _Place(old.full_name, new.full_name, old.file, new.file, path)
            if old.element is not new.element:
                self._compare_message(old.element, new.element, place)
            self._pairs[pair] = len(self._found) == count
        return self._pairs[pair]

    def _kind(self, kind: FieldType, place: _Place, *, is_old: bool) -> str:
        """`map`, `message`, or how a scalar is encoded."""
        if isinstance(kind, MapType):
            return "map"
        if kind in SCALARS:
            return _WIRE_KINDS[kind]
        found = self._find(kind, place, is_old=is_old)
        is_enum = found is not None and isinstance(found.element, EnumType)
        return _NUMBER if is_enum else "message"

    def _map(self, kind: FieldType, place: _Place, *, is_old: bool) -> FieldType:
        """A map that is written as a message for its entries is a map as well."""
        if isinstance(kind, MapType) or kind in SCALARS:
            return kind
        found = self._find(kind, place, is_old=is_old)
        if found is None or not isinstance(found.element, MessageType):
            return kind
        entry = map_type(found.element) if found.element.is_map_entry else None
        return kind if entry is None else entry

    def _find(self, name: str, place: _Place, *, is_old: bool) -> Definition | None:
        if is_old:
            return self._old.find(name, place.old_scope, place.old_file)
        return self._new.find(name, place.new_scope, place.new_file)


def _fields(message: MessageType) -> dict[int, tuple[Field, Oneof | None]]:
    return {each.number: (each, oneof) for each, oneof in message.all_fields()}

"""Supported schema types: how to parse, normalize and compare each.

Note: BACKWARD and FORWARD ask the same question with the schemas swapped: can this reader read
everything that this writer may have written?
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from headwater.registry.registry_errors import invalid_schema
from headwater.schemas.avro import canonical_form
from headwater.schemas.avro.compatibility import unreadable
from headwater.schemas.avro.schema import Named, Parsed, parse
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema import canonical_form as json_text
from headwater.schemas.json_schema.compatibility import narrowed
from headwater.schemas.json_schema.parser import parse_json, read_tree
from headwater.schemas.protobuf import canonical_form as protobuf_text
from headwater.schemas.protobuf import compatibility as protobuf_compatibility
from headwater.schemas.protobuf.descriptors import serialized
from headwater.schemas.protobuf.normalized_form import normalized as normalized_protobuf
from headwater.schemas.protobuf.schema_reader import read_schema


class Described(Protocol):
    """An incompatibility; `described` inserts which side is "new" and which is "old"."""

    def described(self, *, reader: str, writer: str) -> str: ...


PROTOBUF: Final = "PROTOBUF"

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Referred:
    """A referenced schema, and the name that the reference gives it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A parsed schema: canonical and normalized text, and the tree."""

    canonical: Callable[[], str]
    normalized: Callable[[], str]
    root: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaType:
    """Referenced schemas are passed before the schemas that refer to them."""

    read: Callable[[str, Sequence[Referred]], Read]
    """Raises `RestError` if the text is no valid schema of the type."""
    unreadable: Callable[[Any, Any], Sequence[Described]]
    """Incompatibilities that keep a reader (first argument) from reading a writer's data."""
    orders_references: bool = False
    """Whether normalization also sorts the references."""
    formats: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    """Other texts of a schema that a client may ask for, with the parameter `format`."""


def _read_avro(text: str, referred: Sequence[Referred]) -> Read:
    names: dict[str, Named] = {}
    # Parse each text once, even under two names; otherwise its types would be defined twice.
    for each in dict.fromkeys(each.text for each in referred):
        parse(each, names)
    defined = frozenset(names)
    parsed: Parsed = parse(text, names)
    return Read(
        canonical=lambda: canonical_form.canonical(parsed, defined),
        normalized=lambda: canonical_form.normalized(parsed, defined),
        root=parsed.root,
    )


def _read_json(text: str, referred: Sequence[Referred]) -> Read:
    document = parse_json(text)
    others = {each.name: parse_json(each.text) for each in referred}
    return Read(
        canonical=lambda: json_text.canonical(document),
        normalized=lambda: json_text.normalized(document),
        root=read_tree(document, others),
    )


def _read_protobuf(text: str, referred: Sequence[Referred]) -> Read:
    schema = read_schema(text, [(each.name, each.text) for each in referred])
    return Read(
        canonical=lambda: protobuf_text.canonical(schema.file),
        normalized=lambda: normalized_protobuf(schema),
        root=schema,
    )


def _as_response_error(call: Callable[P, T]) -> Callable[P, T]:
    """Raise the registry's error where a parser raises `InvalidSchema`."""

    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except InvalidSchema as error:
            raise invalid_schema(str(error)) from error

    return checked


SCHEMA_TYPES: Final = {
    "AVRO": SchemaType(
        read=_as_response_error(_read_avro),
        unreadable=_as_response_error(
            lambda reader, writer: unreadable(reader=reader, writer=writer)
        ),
    ),
    "JSON": SchemaType(
        read=_as_response_error(_read_json),
        unreadable=_as_response_error(lambda reader, writer: narrowed(old=writer, new=reader)),
        orders_references=True,
    ),
    PROTOBUF: SchemaType(
        read=_as_response_error(_read_protobuf),
        unreadable=_as_response_error(
            lambda reader, writer: protobuf_compatibility.unreadable(reader=reader, writer=writer)
        ),
        orders_references=True,
        formats={"serialized": _as_response_error(serialized)},
    ),
}

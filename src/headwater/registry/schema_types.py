"""The types of schemas that are served: how each is read, written as text, and compared.

What a reader would get wrong: BACKWARD and FORWARD are one question, with the two schemas in other
places: can this reader read all that this writer may have written?
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from headwater.registry.registry_errors import invalid_schema
from headwater.schemas.avro import canonical_form
from headwater.schemas.avro.compatibility import unreadable
from headwater.schemas.avro.schema import Named, Parsed, parse
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema import canonical_form as json_text
from headwater.schemas.json_schema.compatibility import narrowed
from headwater.schemas.json_schema.parser import parse_json, read_tree


class Described(Protocol):
    """An incompatibility, whose sides are called "new" and "old" once they are known."""

    def described(self, *, reader: str, writer: str) -> str: ...


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Referred:
    """A schema that another one refers to, and the name that it has there."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A schema that was read: the texts that it can be known by, and what it is compared by."""

    canonical: Callable[[], str]
    normalized: Callable[[], str]
    root: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaType:
    """What a schema refers to comes before it, what those refer to before them."""

    read: Callable[[str, Sequence[Referred]], Read]
    """Raises `Refusal` for what is no schema of the type."""
    unreadable: Callable[[Any, Any], Sequence[Described]]
    """What keeps a reader, given first, from the data of a writer."""
    orders_references: bool = False
    """Whether a normalised schema has its references in order, too."""


def _read_avro(text: str, referred: Sequence[Referred]) -> Read:
    names: dict[str, Named] = {}
    # Once, also if two names lead to it, or its types would be defined twice.
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
}

"""Resolve `$ref` within a JSON Schema and its references.

Note: nothing is ever downloaded. A `$ref` points into the schema itself, or to a schema that the
request lists as a reference; anything else is an error.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

_DRAFTS: Final = {"draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019, "2020-12": 2020}
_DEFAULT_DRAFT: Final = 7
# Values of these keywords are data; an `$id` in them has no meaning.
_DATA: Final = ("enum", "const", "default", "examples")
_DEPTH_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Draft:
    """A version of JSON Schema, by its number or year."""

    number: int

    @property
    def is_modern(self) -> bool:
        """Whether keywords beside a `$ref` are evaluated."""
        return self.number >= 2019

    @property
    def has_prefix_items(self) -> bool:
        return self.number >= 2020

    @property
    def id_keyword(self) -> str:
        return "id" if self.number == 4 else "$id"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Place:
    """A schema within the documents, as JSON; its `$ref`s are relative to `base`."""

    value: Any
    base: str
    draft: Draft


def draft_of(document: Any, default: int = _DEFAULT_DRAFT) -> Draft:
    schema_uri = document.get("$schema") if isinstance(document, dict) else None
    if isinstance(schema_uri, str):
        for name, number in _DRAFTS.items():
            if name in schema_uri:
                return Draft(number)
    return Draft(default)


def is_meta_schema(uri: str) -> bool:
    """Whether the URI is one of JSON Schema's meta-schemas."""
    host, _, path = uri.partition("://")[2].partition("/")
    return host == "json-schema.org" and path.rstrip("#").endswith("schema")


@dataclass(slots=True)
class Documents:
    """A schema and its references. Raises RecursionError if one is nested too deeply."""

    root: Place
    _resources: dict[str, Place] = field(default_factory=dict)
    _anchors: dict[tuple[str, str], Place] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Any, referred: Mapping[str, Any]) -> "Documents":
        draft = draft_of(root)
        base = urldefrag(_id_of(root, draft) or "")[0]
        documents = cls(Place(value=root, base=base, draft=draft))
        for name, other in referred.items():
            own_draft = draft_of(other, draft.number)
            address = urljoin(base, name)
            place = Place(value=other, base=address, draft=own_draft)
            for each in (name, f"./{name}", address):
                documents._resources[each] = place
            documents._index(place)
        documents._resources[base] = documents.root
        documents._index(documents.root)
        return documents

    def find(self, reference: str, base: str) -> Place | None:
        """Resolve a `$ref` relative to `base`."""
        written, fragment = urldefrag(reference)
        resource = self._resources.get(urljoin(base, written) if written else base)
        if resource is None:
            resource = self._resources.get(written)
        if resource is None:
            return None
        if not fragment:
            return resource
        if not fragment.startswith("/"):
            return self._anchors.get((resource.base, fragment))
        return _pointed(resource, unquote(fragment))

    def _index(self, document: Place) -> None:
        for place in _subschemas(document):
            if place.base != document.base:
                self._resources.setdefault(place.base, place)
            for anchor in _anchors_of(place):
                self._anchors.setdefault((place.base, anchor), place)


def _id_of(value: Any, draft: Draft) -> str | None:
    found = value.get(draft.id_keyword) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _entered(value: Any, base: str, draft: Draft) -> Place:
    written = urldefrag(_id_of(value, draft) or "")[0]
    return Place(value=value, base=urljoin(base, written) if written else base, draft=draft)


def entered(place: Place, value: Any) -> Place:
    """A schema inside another one."""
    return _entered(value, place.base, place.draft)


def _subschemas(document: Place) -> Iterator[Place]:
    """All objects in a document, outer ones first, except data."""
    pending = [(document, 0)]
    while pending:
        place, depth = pending.pop()
        if depth > _DEPTH_MAX:
            raise RecursionError
        inside: list[Any] = []
        if isinstance(place.value, dict):
            place = entered(place, place.value)
            yield place
            inside = [inner for key, inner in place.value.items() if key not in _DATA]
        elif isinstance(place.value, list):
            inside = place.value
        pending += [(entered(place, inner), depth + 1) for inner in reversed(inside)]


def _anchors_of(place: Place) -> Iterator[str]:
    for key in ("$anchor", "$dynamicAnchor"):
        found = place.value.get(key)
        if isinstance(found, str):
            yield found
    fragment = urldefrag(_id_of(place.value, place.draft) or "")[1]
    if fragment and not fragment.startswith("/"):
        yield fragment


def _pointed(resource: Place, pointer: str) -> Place | None:
    """Resolve a JSON pointer; as in Confluent's, `$defs` also finds `definitions`."""
    place = resource
    for index, raw in enumerate(pointer.split("/")[1:]):
        key = raw.replace("~1", "/").replace("~0", "~")
        inside = place.value
        if index == 0 and key == "$defs" and isinstance(inside, dict):
            # A view instead of a copy, since there can be as many pointers as definitions.
            inside = {"$defs": ChainMap(_dict(inside, "$defs"), _dict(inside, "definitions"))}
        if isinstance(inside, dict | ChainMap) and key in inside:
            place = entered(place, inside[key])
        elif isinstance(inside, list) and key.isdecimal() and int(key) < len(inside):
            place = entered(place, inside[int(key)])
        else:
            return None
    if isinstance(place.value, ChainMap):
        return entered(place, dict(place.value))
    return place


def _dict(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}

"""From the text of a JSON Schema to its tree, with every `$ref` followed.

What a reader would get wrong: where a `$ref` leads is read only after the schema that has it, for
that may be the one that it leads to.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from headwater.schemas.errors import invalid_schema_of_type
from headwater.schemas.json_schema.canonical_form import Shapes
from headwater.schemas.json_schema.documents import Documents, Draft, Place, is_meta_schema
from headwater.schemas.json_schema.keywords import Words, bad, shown
from headwater.schemas.json_schema.schema import (
    ANYTHING,
    NOTHING,
    Array,
    Combined,
    Foreign,
    Json,
    Numeric,
    Object,
    Referral,
    Target,
    Text,
)

_DEPTH_MAX: Final = 100
_REFERRING: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def parse_json(text: str) -> Any:
    """JSON with numbers as they are written. Raises InvalidSchema."""
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise invalid_schema_of_type("JSON", f"not JSON: {error}") from error


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def read_tree(root: Any, referred: Mapping[str, Any]) -> Target:
    """The tree of a schema; `referred` has the documents that it may name. Raises InvalidSchema."""
    try:
        return _Reading(Documents.of(root, referred)).read_all()
    except RecursionError as error:
        raise bad("#", f"schemas are nested more than {_DEPTH_MAX} deep") from error
    except ValueError as error:
        raise bad("#", f"the address of a schema is none: {error}") from error


class _Reading:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._shapes = Shapes()
        # What is written twice is read once: there is less to compare.
        self._read: dict[tuple[int, str, Draft], Json] = {}
        self._waiting: list[tuple[Referral, Place, str]] = []
        self._chained: dict[int, tuple[Referral, Referral]] = {}

    def read_all(self) -> Target:
        root = self.read(self._documents.root, "#", 0)
        while self._waiting:
            referral, place, path = self._waiting.pop()
            found = self.read(place, path, 0)
            if isinstance(found, Referral):
                self._chained[id(referral)] = (referral, found)
            else:
                referral.target = found
        for referral, other in self._chained.values():
            referral.target = self._end_of(other)
        return self._end_of(root) if isinstance(root, Referral) else root

    def _end_of(self, referral: Referral) -> Target:
        """Where a chain of `$ref`s ends. All of the chain is settled, so each link counts once."""
        passed: dict[int, Referral] = {}
        while referral.target is None:
            if id(referral) in passed:
                raise bad("#", "a $ref leads back to itself, and to nothing else")
            passed[id(referral)] = referral
            referral = self._chained[id(referral)][1]
        for each in passed.values():
            each.target = referral.target
        return referral.target

    def read(self, place: Place, path: str, depth: int) -> Json:
        value = place.value
        if depth > _DEPTH_MAX:
            raise RecursionError
        if isinstance(value, bool):
            return ANYTHING if value else NOTHING
        if not isinstance(value, dict):
            raise bad(path, f"{shown(value)} is no schema, which is an object or true or false")
        key = (self._shapes.of(value), place.base, place.draft)
        known = self._read.get(key)
        if known is None:
            known = self._read[key] = self._joined(Words(self.read, place, path, depth))
        return known

    def _joined(self, words: Words) -> Json:
        if "$ref" in words.given and not words.draft.is_modern:
            return self._referral(words, "$ref")
        parts = [self._referral(words, each) for each in _REFERRING if each in words.given]
        parts += words.parts()
        if not parts:
            return ANYTHING
        if len(parts) == 1:
            # Who speaks of properties alone means an object. Confluent does this.
            [part] = parts
            if isinstance(part, Text | Numeric | Object | Array):
                return replace(part, is_typed=True)
            return part
        return Combined(criterion="allOf", parts=tuple(parts), is_written=False)

    def _referral(self, words: Words, keyword: str) -> Json:
        reference = words.given[keyword]
        path = f"{words.path}/{keyword}"
        if not isinstance(reference, str):
            raise bad(path, f"{shown(reference)} is no address")
        try:
            place = self._documents.find(reference, words.place.base)
        except ValueError:
            raise bad(path, f"{shown(reference)} is no address") from None
        if place is not None:
            referral = Referral()
            self._waiting.append((referral, place, reference))
            return referral
        if is_meta_schema(reference):
            return Foreign(reference.rstrip("#"))
        raise bad(
            path,
            f"{shown(reference)} leads nowhere; it names a place in this schema, or one of its "
            "references",
        )

"""Parse a JSON Schema into its tree and resolve every `$ref`.

Note: the target of a `$ref` is parsed after the schema that contains it, because it may be that
schema itself.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from headwater.schemas.errors import invalid_schema_of_type
from headwater.schemas.json_schema.canonical_form import Shapes
from headwater.schemas.json_schema.documents import Documents, Draft, Place, is_meta_schema
from headwater.schemas.json_schema.keywords import KeywordParser, bad, shown
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
    """Parse JSON, keeping numbers exact. Raises InvalidSchema."""
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise invalid_schema_of_type("JSON", f"not JSON: {error}") from error


def _reject_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def read_tree(root: Any, referred: Mapping[str, Any]) -> Target:
    """Parse a schema; `referred` has its references by name. Raises InvalidSchema."""
    try:
        return _Parser(Documents.of(root, referred)).read_all()
    except RecursionError as error:
        raise bad("#", f"schemas are nested more than {_DEPTH_MAX} levels deep") from error
    except ValueError as error:
        raise bad("#", f"invalid URI of a schema: {error}") from error


class _Parser:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._shapes = Shapes()
        # Equal schemas are parsed once, so that there is less to compare.
        self._read: dict[tuple[int, str, Draft], Json] = {}
        self._unresolved: list[tuple[Referral, Place, str]] = []
        self._chained: dict[int, tuple[Referral, Referral]] = {}

    def read_all(self) -> Target:
        root = self.read(self._documents.root, "#", 0)
        while self._unresolved:
            referral, place, path = self._unresolved.pop()
            found = self.read(place, path, 0)
            if isinstance(found, Referral):
                self._chained[id(referral)] = (referral, found)
            else:
                referral.target = found
        for referral, other in self._chained.values():
            referral.target = self._end_of(other)
        return self._end_of(root) if isinstance(root, Referral) else root

    def _end_of(self, referral: Referral) -> Target:
        """Follow a chain of `$ref`s to its end, and resolve all of the chain."""
        passed: dict[int, Referral] = {}
        while referral.target is None:
            if id(referral) in passed:
                raise bad("#", "a $ref refers to itself")
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
            raise bad(
                path, f"{shown(value)} is not a schema, which must be an object, true or false"
            )
        key = (self._shapes.of(value), place.base, place.draft)
        known = self._read.get(key)
        if known is None:
            known = self._read[key] = self._joined(KeywordParser(self.read, place, path, depth))
        return known

    def _joined(self, words: KeywordParser) -> Json:
        if "$ref" in words.given and not words.draft.is_modern:
            return self._referral(words, "$ref")
        parts = [self._referral(words, each) for each in _REFERRING if each in words.given]
        parts += words.parts()
        if not parts:
            return ANYTHING
        if len(parts) == 1:
            # Keywords of one type without `type` imply that type, as in Confluent's registry.
            [part] = parts
            if isinstance(part, Text | Numeric | Object | Array):
                return replace(part, is_typed=True)
            return part
        return Combined(criterion="allOf", parts=tuple(parts), is_written=False)

    def _referral(self, words: KeywordParser, keyword: str) -> Json:
        reference = words.given[keyword]
        path = f"{words.path}/{keyword}"
        if not isinstance(reference, str):
            raise bad(path, f"{shown(reference)} is not a URI")
        try:
            place = self._documents.find(reference, words.place.base)
        except ValueError:
            raise bad(path, f"{shown(reference)} is not a URI") from None
        if place is not None:
            referral = Referral()
            self._unresolved.append((referral, place, reference))
            return referral
        if is_meta_schema(reference):
            return Foreign(reference.rstrip("#"))
        raise bad(
            path,
            f"{shown(reference)} is not found; it must point into this schema or to one of its "
            "references",
        )

"""Parse the keywords of one JSON Schema into parts of the tree.

Note: malformed keywords (`"type": "strin"`, `"minLength": "3"`) are rejected here, although JSON
Schema ignores most of them, because they are always mistakes.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from headwater.schemas.errors import InvalidSchema, invalid_schema_of_type
from headwater.schemas.json_schema.canonical_form import value_text
from headwater.schemas.json_schema.documents import Place, entered
from headwater.schemas.json_schema.schema import (
    ANYTHING,
    Array,
    Combined,
    Conditional,
    Json,
    Names,
    Negated,
    Number,
    Numeric,
    Object,
    Plain,
    Property,
    Text,
    Values,
)

_TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
_TEXT_WORDS: Final = ("minLength", "maxLength", "pattern")
_NUMBER_WORDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ARRAY_WORDS: Final = (
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
    *("minItems", "maxItems", "uniqueItems"),
)
_OBJECT_WORDS: Final = (
    *("properties", "required", "patternProperties", "additionalProperties", "propertyNames"),
    *("unevaluatedProperties", "minProperties", "maxProperties"),
    *("dependencies", "dependentRequired", "dependentSchemas"),
)

Reader = Callable[[Place, str, int], Json]
"""Parses a nested schema, given its path and depth."""


class KeywordParser:
    """Parser for the keywords of one schema object."""

    def __init__(self, read: Reader, place: Place, path: str, depth: int) -> None:
        self._read_other = read
        self.place = entered(place, place.value)
        self.given: dict[str, Any] = place.value
        self.draft = place.draft
        self.path = path
        self._depth = depth

    def parts(self) -> list[Json]:
        """All parts of this schema, in the order in which Confluent's registry splits it."""
        found: list[Json] = []
        if "enum" in self.given:
            values = self._list("enum")
            found.append(Values(dict.fromkeys(value_text(each) for each in values)))
        found += [
            self._combined(each) for each in ("allOf", "anyOf", "oneOf") if each in self.given
        ]
        if "not" in self.given:
            found.append(Negated(self._inner("not")))
        if "const" in self.given and self.draft.number > 4:
            found.append(Values({value_text(self.given["const"]): None}))
        found += self._typed()
        if "if" in self.given and self.draft.number >= 7 and self._has("then", "else"):
            found.append(
                Conditional(
                    condition=self._inner("if"),
                    then=self._inner("then"),
                    otherwise=self._inner("else"),
                )
            )
        return found

    def _combined(self, criterion: str) -> Combined:
        schemas = self._list(criterion)
        parts = tuple(
            self._read(each, f"{criterion}/{index}") for index, each in enumerate(schemas)
        )
        return Combined(criterion=criterion, parts=parts)

    def _typed(self) -> list[Json]:
        """Parts for the required types, and for keywords of other types."""
        given_type = self.given.get("type", [])
        types = given_type if isinstance(given_type, list) else [given_type]
        for each in types:
            if each not in _TYPES:
                raise bad(f"{self.path}/type", f"{shown(each)} is not a type")
        found = [self._of_type(each) for each in types]
        if isinstance(given_type, list) and types:
            joined: list[Json] = [Combined(criterion="anyOf", parts=tuple(found))]
        else:
            joined = list(found)
        return joined + [read() for read in self._beside(types)]

    def _beside(self, types: list[str]) -> list[Callable[[], Json]]:
        found: list[Callable[[], Json]] = []
        if "array" not in types and self._has(*_ARRAY_WORDS):
            found.append(lambda: replace(self._array(), is_typed=False))
        if "object" not in types and self._has(*_OBJECT_WORDS):
            found.append(lambda: replace(self._object(), is_typed=False))
        if not {"integer", "number"} & set(types) and self._has(*_NUMBER_WORDS):
            found.append(lambda: replace(self._numeric(is_integer=False), is_typed=False))
        if "string" not in types and self._has(*_TEXT_WORDS):
            found.append(lambda: replace(self._text(), is_typed=False))
        return found

    def _of_type(self, kind: str) -> Json:
        match kind:
            case "string":
                return self._text()
            case "integer" | "number":
                return self._numeric(is_integer=kind == "integer")
            case "array":
                return self._array()
            case "object":
                return self._object()
            case _:
                return Plain(kind)

    def _text(self) -> Text:
        pattern = self.given.get("pattern")
        if pattern is not None and not isinstance(pattern, str):
            raise self._malformed("pattern", "a string")
        return Text(
            min_length=self._count("minLength"),
            max_length=self._count("maxLength"),
            pattern=pattern,
        )

    def _numeric(self, *, is_integer: bool) -> Numeric:
        multiple = self._number("multipleOf")
        if multiple is not None and multiple <= 0:
            raise self._malformed("multipleOf", "a positive number")
        return Numeric(
            is_integer=is_integer,
            minimum=self._number("minimum"),
            maximum=self._number("maximum"),
            exclusive_minimum=self._exclusive("exclusiveMinimum", "minimum"),
            exclusive_maximum=self._exclusive("exclusiveMaximum", "maximum"),
            multiple_of=multiple,
        )

    def _exclusive(self, keyword: str, beside: str) -> Number | None:
        """In draft 4, a boolean that applies to the bound beside it."""
        if self.draft.number == 4 and isinstance(self.given.get(keyword), bool):
            return self._number(beside) if self.given[keyword] else None
        return self._number(keyword)

    def _object(self) -> Object:
        declared = self._mapping("properties")
        keyword = "additionalProperties"
        if keyword not in self.given and self._is_served("unevaluatedProperties"):
            keyword = "unevaluatedProperties"
        names, schemas = self._dependencies()
        return Object(
            properties={
                name: Property(
                    schema=self._read(each, f"properties/{name}"),
                    has_default=isinstance(each, dict) and "default" in each,
                )
                for name, each in declared.items()
            },
            required=self._names("required"),
            patterns=self._schemas("patternProperties"),
            rest=self._inner(keyword),
            rest_keyword=keyword,
            names=self._inner("propertyNames") if self.draft.number > 4 else ANYTHING,
            min_properties=self._count("minProperties"),
            max_properties=self._count("maxProperties"),
            dependent_names=names,
            dependent_schemas=schemas,
        )

    def _dependencies(self) -> tuple[dict[str, Names], dict[str, Json]]:
        names: dict[str, Names] = {}
        schemas: dict[str, Json] = {}
        for name, each in self._mapping("dependencies").items():
            if isinstance(each, list):
                names[name] = self._texts(each, "dependencies")
            else:
                schemas[name] = self._read(each, f"dependencies/{name}")
        for name, each in self._mapping("dependentRequired").items():
            names[name] = self._texts(each, "dependentRequired")
        return names, schemas | self._schemas("dependentSchemas")

    def _array(self) -> Array:
        places, rest, keyword = self._items()
        is_modern = self.draft.is_modern
        least = self._count("minContains") if is_modern else None
        return Array(
            places=places,
            rest=rest,
            rest_keyword=keyword,
            contains=self._inner("contains") if self._is_contained() else None,
            min_contains=1 if least is None else least,
            max_contains=self._count("maxContains") if is_modern else None,
            min_items=self._count("minItems"),
            max_items=self._count("maxItems"),
            is_unique=self._flag("uniqueItems"),
        )

    def _is_contained(self) -> bool:
        return "contains" in self.given and self.draft.number > 4

    def _items(self) -> tuple[tuple[Json, ...], Json, str]:
        """Schemas of the first items, of all others, and the keyword of those."""
        first = "prefixItems" if self.draft.has_prefix_items else "items"
        others = "items" if self.draft.has_prefix_items else "additionalItems"
        tuple_like = self.given.get(first)
        if not isinstance(tuple_like, list):
            tuple_like, others = [], "items"
        if isinstance(self.given.get(others), list):
            raise self._malformed(others, "a schema")
        if others not in self.given and self._is_served("unevaluatedItems"):
            others = "unevaluatedItems"
        places = tuple(
            self._read(each, f"{first}/{index}") for index, each in enumerate(tuple_like)
        )
        return places, self._inner(others), others

    def _is_served(self, keyword: str) -> bool:
        return self.draft.is_modern and keyword in self.given

    def _has(self, *keywords: str) -> bool:
        return any(each in self.given for each in keywords)

    def _inner(self, keyword: str) -> Json:
        return self._read(self.given[keyword], keyword) if keyword in self.given else ANYTHING

    def _read(self, value: Any, path: str) -> Json:
        place = entered(self.place, value)
        return self._read_other(place, f"{self.path}/{path}", self._depth + 1)

    def _schemas(self, keyword: str) -> dict[str, Json]:
        found = self._mapping(keyword)
        return {name: self._read(each, f"{keyword}/{name}") for name, each in found.items()}

    def _mapping(self, keyword: str) -> dict[str, Any]:
        found = self.given.get(keyword, {})
        if not isinstance(found, dict):
            raise self._malformed(keyword, "an object")
        return found

    def _list(self, keyword: str) -> list[Any]:
        found = self.given[keyword]
        if not isinstance(found, list) or not found:
            raise self._malformed(keyword, "a non-empty list")
        return found

    def _names(self, keyword: str) -> Names:
        found = self.given.get(keyword, [])
        # Draft 3 had `required: true` on properties, and many schemas still use it.
        return {} if isinstance(found, bool) else self._texts(found, keyword)

    def _texts(self, found: Any, keyword: str) -> Names:
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise self._malformed(keyword, "a list of names")
        return dict.fromkeys(found)

    def _count(self, keyword: str) -> int | None:
        found = self._number(keyword)
        if found is not None and (not 0 <= found < 2**63 or found != int(found)):
            raise self._malformed(keyword, "a non-negative integer")
        return None if found is None else int(found)

    def _number(self, keyword: str) -> Number | None:
        found = self.given.get(keyword)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | Decimal):
            raise self._malformed(keyword, "a number")
        return found

    def _flag(self, keyword: str) -> bool:
        found = self.given.get(keyword, False)
        if not isinstance(found, bool):
            raise self._malformed(keyword, "true or false")
        return found

    def _malformed(self, keyword: str, wanted: str) -> InvalidSchema:
        return bad(f"{self.path}/{keyword}", f"{shown(self.given.get(keyword))} is not {wanted}")


def shown(given: Any) -> str:
    text = json.dumps(given, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def bad(path: str, reason: str) -> InvalidSchema:
    return invalid_schema_of_type("JSON", f"at {path}: {reason}")

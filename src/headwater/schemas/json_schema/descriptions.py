"""Confluent's sentences for incompatible JSON Schemas, by kind of incompatibility."""

from typing import Final

_KEYWORD: Final = (
    "The keyword at path '{path}' in the {new} schema is not present in the {old} schema"
)
_MORE: Final = (
    "The value at path '{path}' in the {new} schema is more than its value in the {old} schema"
)
_LESS: Final = (
    "The value at path '{path}' in the {new} schema is less than its value in the {old} schema"
)
_VALUE: Final = "The value at path '{path}' is different between the {new} and {old} schema"
_FEWER: Final = (
    "An array or combined type at path '{path}' has fewer elements in the {new} schema than the "
    "{old} schema"
)
_FURTHER: Final = (
    "An array or combined type at path '{path}' has more elements in the {new} schema than the "
    "{old} schema"
)
_TYPE: Final = "A type at path '{path}' is different between the {new} schema and the {old} schema"
_OPEN: Final = (
    "The {new} schema has an open content model and has a property or item at path '{path}' which "
    "is missing in the {old} schema"
)
_UNOPEN: Final = (
    "The {new} schema has an unopen content model and has a required property at path '{path}' "
    "which is missing in the {old} schema"
)
_CLOSED: Final = (
    "The {new} has a closed content model and is missing a property or item present at path "
    "'{path}' in the {old} schema"
)
_REMOVED: Final = (
    "A property or item is missing in the {new} schema but present at path '{path}' in the {old} "
    "schema and is not covered by its partially open content model"
)
_ADDED: Final = (
    "The {new} schema has a property or item at path '{path}' which is missing in the {old} schema "
    "and is not covered by its partially open content model"
)

_EXACT: Final = {
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _UNOPEN,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED,
    "MULTIPLE_OF_EXPANDED": _MORE,
    "PATTERN_CHANGED": _VALUE,
    "MULTIPLE_OF_CHANGED": _VALUE,
    "DEPENDENCY_ARRAY_CHANGED": _VALUE,
    "TYPE_CHANGED": _TYPE,
    "TYPE_NARROWED": _TYPE,
    "COMBINED_TYPE_CHANGED": _TYPE,
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _TYPE,
    "ENUM_ARRAY_CHANGED": _TYPE,
}
# The first suffix that matches applies.
_SUFFIXES: Final = (
    ("_ADDED_TO_OPEN_CONTENT_MODEL", _OPEN),
    ("_ITEMS_REMOVED", _KEYWORD),
    ("_PROPERTIES_REMOVED", _KEYWORD),
    ("_INCREASED", _MORE),
    ("_DECREASED", _LESS),
    ("_NARROWED", _FEWER),
    ("_EXTENDED", _FURTHER),
    ("_ADDED", _KEYWORD),
)
# Kinds that only this registry checks, so Confluent's has no sentence for them.
_OWN: Final = frozenset(["CONTAINS_EXTENDED", "PATTERN_PROPERTY_ADDED", "SCHEMA_ADDED"])


def description(kind: str, path: str, *, reader: str, writer: str) -> str:
    """Confluent's sentence for a kind, or empty; `reader` is "new" or "old"."""
    found = _EXACT.get(kind)
    if found is None and kind not in _OWN:
        found = next((text for suffix, text in _SUFFIXES if kind.endswith(suffix)), None)
    if found is None:
        return ""
    # Paths come from schemas and may contain braces, so they are not passed through `format`.
    before, _, after = found.partition("{path}")
    return f"{before.format(new=reader, old=writer)}{path}{after.format(new=reader, old=writer)}"

"""Explain why a value does not fit its schema, for the dead-letter topic.

Spark decides whether a record can be parsed, but does not report why it cannot. This module only
looks for the reason; if it finds none, the message says so.
"""

import json
from typing import Any, Final

from headwater.pipelines.spec.ddl import BadSchema, DdlField, read_schema

_MOST_TEXT: Final = 60
_WHOLE: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def parse_error(value: bytes | None, coding: str, schema: str) -> str:
    """Return the reason in one line."""
    if value is None:
        return "there is no value"
    try:
        text = bytes(value).decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte {error.start} is 0x{value[error.start]:02x}"
    if coding != "json":
        return f"not {coding} of the schema {schema}"
    if not text.strip():
        return "not JSON: empty"
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg} at line {error.lineno} column {error.colno}"
    except RecursionError:
        return "not JSON: nested too deeply"
    return _of_document(document, schema)


def _of_document(document: Any, schema: str) -> str:
    if not isinstance(document, dict):
        return f"not a JSON object: {_shown(document)}"
    try:
        fields = read_schema(schema)
    except BadSchema:
        fields = ()
    for field in fields:
        reason = _of_field(document.get(field.name), field, field.name)
        if reason is not None:
            return reason
    return f"does not fit the schema {schema}"


def _of_field(value: Any, field: DdlField, name: str) -> str | None:
    if value is None or _fits(value, field.kind):
        if isinstance(value, dict):
            for inner in field.fields:
                reason = _of_field(value.get(inner.name), inner, f"{name}.{inner.name}")
                if reason is not None:
                    return reason
        return None
    return f"{name} is not of type {field.kind}: {_shown(value)}"


def _fits(value: Any, kind: str) -> bool:
    """Return False only if Spark certainly cannot read the value."""
    if kind in _WHOLE:
        half = 1 << (_WHOLE[kind] - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -half <= value < half
    if kind in ("float", "double") or kind.startswith("decimal"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "timestamp" and isinstance(value, int):
        return not isinstance(value, bool)
    if kind == "date" or kind.startswith("timestamp"):
        return isinstance(value, str) and any(each.isdigit() for each in value)
    if kind.startswith("array"):
        return isinstance(value, list)
    if kind.startswith(("map", "struct")):
        return isinstance(value, dict)
    return True


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."

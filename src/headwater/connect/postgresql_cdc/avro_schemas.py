"""Avro schemas of Debezium's change events, from the columns of a table.

The names are Debezium's: the record `Envelope` in a namespace called after the topic, with `Value`
for rows and `io.debezium.connector.postgresql.Source`. Every column outside the key may be null and
has null as its default, also if the table says NOT NULL: so a column can be added and dropped
without breaking the compatibility BACKWARD, which is the registry's default.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from headwater.common.exceptions import HeadwaterError
from headwater.connect.postgresql_cdc.column_types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    OID,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
)
from headwater.connect.postgresql_cdc.pgoutput import Relation, RelationColumn

AvroSchema = dict[str, Any]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]", re.ASCII)
# Connect's name of a type, where it has one, tells consumers what a number means.
_TYPES: Final[dict[int, tuple[str, str | None]]] = {
    BOOL: ("boolean", None),
    INT2: ("int", None),
    INT4: ("int", None),
    INT8: ("long", None),
    OID: ("long", None),
    FLOAT4: ("float", None),
    FLOAT8: ("double", None),
    BYTEA: ("bytes", None),
    DATE: ("int", "io.debezium.time.Date"),
    TIME: ("long", "io.debezium.time.MicroTime"),
    TIMESTAMP: ("long", "io.debezium.time.MicroTimestamp"),
    TIMESTAMPTZ: ("string", "io.debezium.time.ZonedTimestamp"),
}
_SOURCE: Final[AvroSchema] = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": ["null", "string"], "default": None},
        {"name": "db", "type": "string"},
        {"name": "schema", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "txId", "type": ["null", "long"], "default": None},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}
_TRANSACTION: Final[AvroSchema] = {
    "type": "record",
    "name": "block",
    "namespace": "event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "total_order", "type": "long"},
        {"name": "data_collection_order", "type": "long"},
    ],
}


class NoAvroName(HeadwaterError):
    """A column has a name that Avro does not allow."""


def value_schema(topic: str, relation: Relation) -> AvroSchema:
    """The envelope of a table's changes."""
    row = {
        "type": "record",
        "name": "Value",
        "fields": [
            {
                "name": _column_name(relation, column),
                "type": ["null", _column_type(column)],
                "default": None,
            }
            for column in relation.columns
        ],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": _namespace(topic),
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": _SOURCE},
            {"name": "transaction", "type": ["null", _TRANSACTION], "default": None},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }


def key_schema(topic: str, relation: Relation, names: Sequence[str]) -> AvroSchema:
    """The key of a table's records."""
    return {
        "type": "record",
        "name": "Key",
        "namespace": _namespace(topic),
        "fields": [
            {"name": _column_name(relation, column), "type": _column_type(column)}
            for column in relation.columns
            if column.name in names
        ],
    }


def _column_type(column: RelationColumn) -> str | AvroSchema:
    kind, connect_name = _TYPES.get(column.type_oid, ("string", None))
    return kind if connect_name is None else {"type": kind, "connect.name": connect_name}


def _column_name(relation: Relation, column: RelationColumn) -> str:
    if _NAME.fullmatch(column.name) is None:
        raise NoAvroName(
            f"column {column.name!r} of table {relation.namespace}.{relation.name} has a name that "
            "Avro does not allow: rename it, or set format=json"
        )
    return column.name


def _namespace(topic: str) -> str:
    """The topic with what Avro does not allow replaced, as Debezium does."""
    parts = (_NOT_IN_NAMES.sub("_", part) for part in topic.split("."))
    return ".".join(part if _NAME.fullmatch(part) else f"_{part}" for part in parts)

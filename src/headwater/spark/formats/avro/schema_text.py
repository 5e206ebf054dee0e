"""Write schemas as JSON: derived ones, or ones reduced to the columns of a query."""

import json
from typing import Any

from headwater.schemas.avro.resolved_schema import (
    DECIMAL,
    Array,
    Enumeration,
    Field,
    Fixed,
    Map,
    Plain,
    Record,
    Schema,
    Union,
    nullable,
)
from headwater.spark.exceptions import WrongColumns
from headwater.spark.formats.avro.column_types import column_type, ddl, merged


def schema_text(schema: Schema) -> str:
    """Return a schema as JSON, including its references.

    A name is defined where it is used first. A record that was reduced differently in two places is
    defined twice, which only `parse_schema` accepts.
    """
    return json.dumps(_json(schema, {}, ""), separators=(",", ":"))


def cut(schema: Schema, kind: Any, what: str) -> Schema:
    """Reduce a reader's schema to the fields of a type.

    Raises `WrongColumns` if the type has other fields or types.
    """
    if ddl(column_type(schema, what)) == ddl(kind):
        return schema
    found = _cut(schema, kind, what)
    if ddl(column_type(found, what)) != ddl(kind):
        raise WrongColumns(
            f"{what} is {ddl(column_type(schema, what))} in the Avro schema, not {ddl(kind)}"
        )
    return found


def _cut(schema: Schema, kind: Any, what: str) -> Schema:
    match schema, kind:
        case Record(), _ if hasattr(kind, "fields"):
            fields = {field.name: field for field in schema.fields}
            return Record(
                name=schema.name,
                aliases=schema.aliases,
                fields=tuple(_field(fields, each, what) for each in kind.fields),
            )
        case Array(), _ if hasattr(kind, "value_type"):
            return Array(cut(schema.items, kind.value_type, f"{what}[]"))
        case Map(), _ if hasattr(kind, "item_type"):
            return Map(cut(schema.values, kind.item_type, f"{what}[]"))
        case Union(), _ if merged(nullable(schema)[1]) is not None:
            return Union(
                tuple(
                    each if isinstance(each, Plain) else cut(each, kind, what)
                    for each in schema.branches
                )
            )
    return schema


def _field(fields: dict[str, Field], wanted: Any, what: str) -> Field:
    found = fields.get(wanted.name)
    if found is None:
        raise WrongColumns(
            f"the Avro schema has no {what}.{wanted.name}; it has {', '.join(fields)}"
        )
    return Field(
        name=found.name,
        schema=cut(found.schema, wanted.type, f"{what}.{found.name}"),
        aliases=found.aliases,
        has_default=found.has_default,
        default=found.default,
    )


def _json(schema: Schema, named: dict[str, Schema], space: str) -> Any:
    match schema:
        case Plain():
            return {"type": schema.kind, **_meaning(schema)} if schema.logical else schema.kind
        case Array():
            return {"type": "array", "items": _json(schema.items, named, space)}
        case Map():
            return {"type": "map", "values": _json(schema.values, named, space)}
        case Union():
            return [_json(each, named, space) for each in schema.branches]
        case Fixed() | Enumeration() | Record():
            if named.get(schema.name) == schema:
                return schema.name
            named[schema.name] = schema
            return _named(schema, named, space)


def _named(
    schema: Fixed | Enumeration | Record, named: dict[str, Schema], space: str
) -> dict[str, Any]:
    own, _, name = schema.name.rpartition(".")
    found: dict[str, Any] = {"type": "record", "name": name}
    if own != space:
        # Written even if empty; otherwise the enclosing record's namespace would apply.
        found["namespace"] = own
    if schema.aliases:
        found["aliases"] = list(schema.aliases)
    match schema:
        case Fixed():
            return {**found, "type": "fixed", "size": schema.size_bytes, **_meaning(schema)}
        case Enumeration():
            default = {} if schema.default is None else {"default": schema.default}
            return {**found, "type": "enum", "symbols": list(schema.symbols), **default}
        case Record():
            return {**found, "fields": [_field_json(each, named, space) for each in schema.fields]}


def _field_json(field: Field, named: dict[str, Schema], space: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": field.name, "type": _json(field.schema, named, space)}
    if field.has_default:
        found["default"] = field.default
    if field.aliases:
        found["aliases"] = list(field.aliases)
    return found


def _meaning(schema: Plain | Fixed) -> dict[str, Any]:
    if schema.logical is None:
        return {}
    if schema.logical != DECIMAL:
        return {"logicalType": schema.logical}
    return {"logicalType": DECIMAL, "precision": schema.precision, "scale": schema.scale}

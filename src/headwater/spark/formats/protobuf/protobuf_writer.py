"""Write columns of Spark as Protobuf messages, each behind the id of its schema.

Columns are matched to fields by name. A null leaves a field unset; in an array or a map it is an
error, because Protobuf has none there.
"""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from headwater.schemas.errors import UnsupportedSchema
from headwater.schemas.protobuf.message_indexes import encode_indexes, indexes_of
from headwater.schemas.protobuf.messages import MessageClasses
from headwater.schemas.protobuf.resolution import ProtobufSchema
from headwater.spark.exceptions import WrongColumns
from headwater.spark.formats.protobuf.message_columns import (
    JSON_TYPES,
    TIMESTAMP,
    WRAPPERS,
    AnyArray,
    is_map,
    message_column,
    scalar_type,
)

Setter = Callable[[Any, Any], None]
"""Put a value into a message."""

_MICROS: Final = 1_000_000
_DECIMAL: Final = pa.decimal128(20, 0).id


def protobuf_writer(
    schema: ProtobufSchema, message: str, kind: Any, schema_id: int
) -> Callable[[AnyArray], AnyArray]:
    """A function from a column to bytes. `UnsupportedSchema` if it does not fit."""
    classes = MessageClasses(schema)
    indexes = indexes_of(schema.file, message)
    if indexes is None:
        raise UnsupportedSchema(f"the schema has no message {message}")
    made = classes.named(message)
    prefix = b"\0" + schema_id.to_bytes(4, "big") + encode_indexes(indexes)
    fill = _message_setter(made.DESCRIPTOR, kind, "value")

    def write(column: AnyArray) -> AnyArray:
        found: list[bytes | None] = []
        for row in _plain(column, kind).to_pylist():
            if row is None:
                found.append(None)
                continue
            target = made()
            try:
                fill(target, row)
                found.append(prefix + target.SerializeToString())
            except (ValueError, TypeError) as error:
                raise WrongColumns(f"a row does not fit the message {message}: {error}") from None
        make: Any = pa.array
        return make(found, pa.binary())

    return write


def _plain(column: AnyArray, kind: Any) -> AnyArray:
    """Timestamps as numbers: `datetime` has fewer years."""
    plain = _plain_type(kind)
    return column if plain == kind else column.cast(plain)


def _plain_type(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain_type(each.type)) for each in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _plain_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _plain_type(kind.item_type))
    return kind


def _message_setter(descriptor: Any, kind: Any, what: str) -> Setter:
    """Fill a message from a dict."""
    if not pa.types.is_struct(kind):
        raise UnsupportedSchema(
            f"{what} is {kind}, and {descriptor.full_name} is a message: a struct is needed"
        )
    setters = []
    for each in kind.fields:
        field = descriptor.fields_by_name.get(each.name)
        if field is None:
            raise UnsupportedSchema(f"{descriptor.full_name} has no field {each.name}")
        setters.append((each.name, _field_setter(field, each.type, f"{what}.{each.name}")))
    names = {each.name for each in kind.fields}
    required = [each.name for each in descriptor.fields if each.is_required]
    missing = [each for each in required if each not in names]
    if missing:
        raise UnsupportedSchema(f"{what} lacks the required field {missing[0]}")

    def fill(target: Any, row: dict[str, Any]) -> None:
        for name, put in setters:
            value = row[name]
            if value is not None:
                put(target, value)

    return fill


def _field_setter(field: Any, kind: Any, what: str) -> Setter:
    name = field.name
    if is_map(field):
        return _map_setter(field, kind, what)
    if field.is_repeated:
        if not pa.types.is_list(kind):
            raise UnsupportedSchema(f"{what} is {kind}, and the field is repeated")
        if field.message_type is not None:
            fill = _submessage(field.message_type, kind.value_type, f"{what}[]")

            def put_messages(target: Any, values: list[Any]) -> None:
                container = getattr(target, name)
                for each in values:
                    fill(container.add(), _present(each, what))

            return put_messages
        convert = _converter(field, kind.value_type, f"{what}[]")
        return lambda target, values: getattr(target, name).extend(
            convert(_present(each, what)) for each in values
        )
    if field.message_type is not None:
        fill_one = _submessage(field.message_type, kind, what)

        def put_message(target: Any, value: Any) -> None:
            inner = getattr(target, name)
            inner.SetInParent()
            fill_one(inner, value)

        return put_message
    convert_one = _converter(field, kind, what)
    return lambda target, value: setattr(target, name, convert_one(value))


def _map_setter(field: Any, kind: Any, what: str) -> Setter:
    if not pa.types.is_map(kind):
        raise UnsupportedSchema(f"{what} is {kind}, and the field is a map")
    name = field.name
    entry = field.message_type.fields_by_name
    key = _converter(entry["key"], kind.key_type, what)
    if entry["value"].message_type is not None:
        fill = _submessage(entry["value"].message_type, kind.item_type, f"{what}[]")

        def put_messages(target: Any, values: list[tuple[Any, Any]]) -> None:
            container = getattr(target, name)
            for each, value in values:
                fill(container[key(each)], _present(value, what))

        return put_messages
    convert = _converter(entry["value"], kind.item_type, f"{what}[]")

    def put(target: Any, values: list[tuple[Any, Any]]) -> None:
        container = getattr(target, name)
        for each, value in values:
            container[key(each)] = convert(_present(value, what))

    return put


def _submessage(descriptor: Any, kind: Any, what: str) -> Setter:
    """Fill a message inside of another one, well-known ones from their own types."""
    name = descriptor.full_name
    if name == TIMESTAMP and pa.types.is_timestamp(kind):
        return _put_timestamp
    if name in WRAPPERS:
        convert = _converter(descriptor.fields_by_name["value"], kind, what)
        return lambda target, value: setattr(target, "value", convert(value))
    if name in JSON_TYPES and pa.types.is_string(kind):
        return _put_json
    return _message_setter(descriptor, kind, what)


def _put_timestamp(target: Any, micros: int) -> None:
    target.seconds, rest = divmod(micros, _MICROS)
    target.nanos = rest * 1_000


def _put_json(target: Any, text: str) -> None:
    from google.protobuf import json_format

    try:
        json_format.Parse(text, target)
    except json_format.ParseError as error:
        raise ValueError(str(error)) from None


def _present(value: Any, what: str) -> Any:
    if value is None:
        raise ValueError(f"{what} has a null inside, for which Protobuf has no form")
    return value


def _converter(field: Any, kind: Any, what: str) -> Callable[[Any], Any]:
    """From a value of Spark to one of the runtime, which checks its range."""
    accepted = scalar_type(field)
    if field.enum_type is not None and pa.types.is_string(kind):
        numbers = {name: each.number for name, each in field.enum_type.values_by_name.items()}
        return lambda value: _enum_number(numbers, value, what)
    if pa.types.is_integer(kind) and (pa.types.is_integer(accepted) or accepted.id == _DECIMAL):
        return int
    if pa.types.is_decimal(kind) and kind.scale == 0 and accepted.id == _DECIMAL:
        return int
    if pa.types.is_floating(kind) and pa.types.is_floating(accepted):
        return float
    if kind == accepted:
        return lambda value: value
    raise UnsupportedSchema(f"{what} is {kind}, and the field is of type {accepted}")


def _enum_number(numbers: dict[str, int], value: str, what: str) -> int:
    found = numbers.get(value)
    if found is not None:
        return found
    if value.removeprefix("-").isdecimal():
        return int(value)
    raise ValueError(f"{what} has no value {value}")


def column_kind(schema: ProtobufSchema, message: str) -> Any:
    """The type of a column that holds a message."""
    return message_column(MessageClasses(schema).named(message).DESCRIPTOR).kind

"""Transforms of the fields of keys and values."""

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from headwater.spark.exceptions import InvalidOption
from headwater.spark.transforms.record_columns import (
    Changed,
    failing,
    field_of,
    kind_of,
    need_column,
    part_of,
    plain_fields,
    rebuilt,
    struct_of,
)
from headwater.spark.transforms.transform_config import TransformSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_INTEGER_BITS: Final = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
# The options of InsertField that name a field, and the column that it gets, in Kafka's order.
_INSERTED: Final = {
    "topic.field": "topic",
    "partition.field": "partition",
    "offset.field": "offset",
    "timestamp.field": "timestamp",
}


def insert_field(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Add fields with the record's position, timestamp or a constant."""
    part = part_of(frame, spec)
    fields = plain_fields(part, struct_of(frame, part, spec))
    added = [
        (spec.config[option], need_column(frame, column, spec))
        for option, column in _INSERTED.items()
        if option in spec.config
    ]
    if "static.field" in spec.config:
        added.append((spec.config["static.field"], f.lit(spec.config["static.value"])))
    failure = None
    for written, column in added:
        name = written.removesuffix("!").removesuffix("?")
        if name in fields:
            raise InvalidOption(f"{spec}: the {part} has a field {name} already")
        fields[name] = column
        if written.endswith("!"):
            is_missing = f.col(part).isNotNull() & column.isNull()
            missing = failing(is_missing, f"the field {name} must not be null")
            failure = missing if failure is None else f.coalesce(failure, missing)
    return Changed(columns={part: rebuilt(part, fields, spec)}, failure=failure)


def replace_field(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Keep, drop and rename fields."""
    part = part_of(frame, spec)
    include, exclude = spec.names("include"), spec.names("exclude")
    renames = dict(each.split(":") for each in spec.names("renames"))
    found: dict[str, Column] = {}
    for each in struct_of(frame, part, spec).fields:
        if each.name in exclude or (include and each.name not in include):
            continue
        name = renames.get(each.name, each.name)
        if name in found:
            raise InvalidOption(f"{spec}: two fields would be called {name}")
        found[name] = field_of(part, each.name)
    return Changed(columns={part: rebuilt(part, found, spec)})


def mask_field(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Replace values by zero, an empty string and so on, or by a given text or number."""
    part = part_of(frame, spec)
    kind = struct_of(frame, part, spec)
    masked, replacement = spec.names("fields"), spec.config.get("replacement")
    fields = plain_fields(part, kind)
    for each in kind.fields:
        if each.name in masked:
            column = field_of(part, each.name)
            mask = _mask(each.dataType, replacement, f"{spec}: the field {each.name}")
            fields[each.name] = f.when(column.isNotNull(), mask)
    failure = failing(f.col(part).isNull(), f"the {part} is null")
    return Changed(columns={part: rebuilt(part, fields, spec)}, failure=failure)


def _mask(kind: DataType, replacement: str | None, whose: str) -> "Column":
    if replacement is None:
        return _empty(kind, whose)
    if isinstance(kind, StringType):
        return f.lit(replacement)
    if not isinstance(kind, (FloatType, DoubleType, DecimalType, *_INTEGER_BITS)):
        raise InvalidOption(f"{whose} is of type {kind.simpleString()}: it takes no replacement")
    try:
        number = Decimal(replacement)
    except InvalidOperation:
        raise InvalidOption(f"{whose} is a number, the replacement {replacement} is not") from None
    bits = next((bits for each, bits in _INTEGER_BITS.items() if isinstance(kind, each)), None)
    if bits is not None:
        whole = int(number)
        wrapped = (whole + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        return f.lit(wrapped).cast(kind)
    return f.lit(replacement).cast(kind)


def _empty(kind: DataType, whose: str) -> "Column":
    match kind:
        case BooleanType():
            return f.lit(False)
        case StringType():
            return f.lit("")
        case ArrayType():
            return f.array().cast(kind)
        case MapType():
            return f.create_map().cast(kind)
        case DateType():
            return f.lit("1970-01-01").cast(kind)
        case TimestampType():
            return f.timestamp_millis(f.lit(0))
        case FloatType() | DoubleType() | DecimalType():
            return f.lit(0).cast(kind)
        case _ if type(kind) in _INTEGER_BITS:
            return f.lit(0).cast(kind)
        case _:
            raise InvalidOption(f"{whose} is of type {kind.simpleString()}: it cannot be masked")


def value_to_key(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Make a key of fields of the value."""
    known = struct_of(frame, "value", spec).names
    for name in spec.names("fields"):
        if name not in known:
            raise InvalidOption(f"{spec}: the value has no field {name}; it has {', '.join(known)}")
    key = f.struct(*(field_of("value", name).alias(name) for name in spec.names("fields")))
    failure = failing(f.col("value").isNull(), "the value is null")
    return Changed(columns={"key": key}, failure=failure)


def hoist_field(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Wrap a key or value into a struct with one field."""
    part = part_of(frame, spec)
    return Changed(columns={part: f.struct(f.col(part).alias(spec.config["field"]))})


def extract_field(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Replace a key or value by one of its fields."""
    part = part_of(frame, spec)
    kind: DataType = struct_of(frame, part, spec)
    column, written = f.col(part), spec.config["field"]
    is_path = spec.config.get("field.syntax.version") == "V2"
    for name in path_of(written) if is_path else [written]:
        if not isinstance(kind, StructType) or name not in kind.names:
            raise InvalidOption(f"{spec}: the {part} has no field {written}")
        kind, column = kind[name].dataType, column.getField(name)
    return Changed(columns={part: column})


def path_of(text: str) -> list[str]:
    """Split a path such as `a.b`, in which a name with dots is in backticks."""
    found, name, is_quoted = [], "", False
    for at, letter in enumerate(text):
        if letter == "`" and (is_quoted or not name):
            is_quoted = not is_quoted
        elif letter == "." and not (is_quoted and "`" in text[at:]):
            found.append(name)
            name = ""
        else:
            name += letter
    return [*found, name]


def flatten(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Move the fields of nested structs to the top, under joined names."""
    part = part_of(frame, spec)
    found: dict[str, Column] = {}
    delimiter = spec.config.get("delimiter", ".")

    def walk(kind: StructType, column: "Column", start: str) -> None:
        for each in kind.fields:
            name, inner = start + each.name, column.getField(each.name)
            if isinstance(each.dataType, StructType):
                walk(each.dataType, inner, name + delimiter)
            elif name in found:
                raise InvalidOption(f"{spec}: two fields would be called {name}")
            else:
                found[name] = inner

    walk(struct_of(frame, part, spec), f.col(part), "")
    return Changed(columns={part: rebuilt(part, found, spec)})


def whole_or_field(frame: "DataFrame", part: str, name: str) -> "tuple[Column, DataType]":
    """Return a key or value, or one of its fields, with its type."""
    kind = kind_of(frame, part)
    if not name:
        return f.col(part), kind
    assert isinstance(kind, StructType), "checked by the caller"
    return field_of(part, name), kind[name].dataType

"""Write typed columns in an Avro schema, a column at a time.

The constructor checks from the types alone whether a column can be written. Rows can still fail
with `UnwritableRow`: nulls where the schema has none, numbers out of range, symbols that an enum
does not have, and bytes of another length.
"""

import uuid
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from headwater.records.arrow_values import binaries, binary, integer
from headwater.schemas.avro.resolved_schema import (
    DECIMAL,
    NULL,
    UUID,
    Array,
    Enumeration,
    Field,
    Fixed,
    Map,
    Plain,
    Record,
    Schema,
    Union,
    name_of,
    nullable,
)
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.exceptions import UnwritableRow
from headwater.spark.formats.avro import avro_encoding
from headwater.spark.formats.avro.batch_walk import AnyArray, numbers, scatter
from headwater.spark.formats.avro.column_types import column_type, ddl
from headwater.spark.formats.avro.field_defaults import default_value

compute: Any = pyarrow.compute

# The bytes of each row, without nulls.
Pieces = Callable[[AnyArray], AnyArray]

_INTS: Final = (pa.int8(), pa.int16(), pa.int32())
_WHOLE: Final = (*_INTS, pa.int64())
_INT_MAX: Final = (1 << 31) - 1
_MICROS_PER_MILLI: Final = 1000


def avro_writer(schema: Schema, kind: Any, schema_id: int) -> Pieces:
    """Return an encoder of a column: values with their schema id in front.

    A null value becomes a tombstone. Raises `UnsupportedSchema` if column and schema do not match.
    """
    write = pieces_of(schema, kind, "")
    prefix = binary(bytes([0]) + schema_id.to_bytes(4, "big"))

    def write_all(values: AnyArray) -> AnyArray:
        there = values.drop_null()
        found = avro_encoding.joined(prefix, write(there))
        if not values.null_count:
            return found
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        return scatter(len(values), [(rows, found)], pa.binary())

    return write_all


def pieces_of(schema: Schema, kind: Any, what: str) -> Pieces:
    """Return the encoder of a column type for a schema; `what` is for messages."""
    if isinstance(schema, Union):
        return _union(schema, kind, what)
    write = _branch(schema, kind, what)
    if write is None:
        raise UnsupportedSchema(
            f"{what or 'the value'} is of type {ddl(kind)}, and the schema has {name_of(schema)}"
        )
    if schema == NULL:
        return write

    def write_whole(values: AnyArray) -> AnyArray:
        if values.null_count:
            raise UnwritableRow(
                f"{what or 'the value'} is null in a row, and the schema has {name_of(schema)} "
                "without null"
            )
        return write(values)

    return write_whole


def _branch(schema: Schema, kind: Any, what: str) -> Pieces | None:
    """Return an encoder; None if the types differ; raise if nested types differ."""
    match schema:
        case Plain():
            return _plain(schema, kind, what)
        case Fixed():
            return _fixed(schema, kind, what)
        case Enumeration() if kind == pa.string():
            return _enumeration(schema, what)
        case Array() if pa.types.is_list(kind):
            return _array(pieces_of(schema.items, kind.value_type, f"{what}[]"))
        case Map() if pa.types.is_map(kind) and kind.key_type == pa.string():
            return _map(pieces_of(schema.values, kind.item_type, f"{what}[]"))
        case Record() if pa.types.is_struct(kind):
            return _record(schema, kind, what)
    return None


def _plain(schema: Plain, kind: Any, what: str) -> Pieces | None:
    match schema.kind:
        case "null" if kind == pa.null():
            return lambda values: avro_encoding.repeated(b"", len(values))
        case "boolean" if kind == pa.bool_():
            return avro_encoding.booleans
        case "int" | "long":
            return _whole(schema, kind, what)
        case "float" if kind == pa.float32():
            return avro_encoding.floatings
        case "double" if kind in (pa.float32(), pa.float64()):
            return lambda values: avro_encoding.floatings(values.cast(pa.float64()))
        case "string" if kind == pa.string():
            return avro_encoding.slices
        case "bytes" if schema.logical == DECIMAL:
            if pa.types.is_decimal(kind) and _has_room(schema, kind):
                wide = pa.decimal128(38, schema.scale)
                return lambda values: avro_encoding.decimals(values.cast(wide))
        case "bytes" if kind == pa.binary():
            return avro_encoding.slices
    return None


def _whole(schema: Plain, kind: Any, what: str) -> Pieces | None:
    match schema.logical:
        case "date":
            return _days if kind == pa.date32() else None
        case None:
            if kind not in _WHOLE:
                return None
            is_checked = schema.kind == "int" and kind not in _INTS
            return _checked_ints(what) if is_checked else avro_encoding.longs
        case logical:
            is_local = logical.startswith("local-")
            if not pa.types.is_timestamp(kind) or (kind.tz is None) is not is_local:
                return None
            return _millis if logical.endswith("-millis") else _micros


def _days(values: AnyArray) -> AnyArray:
    return avro_encoding.longs(values.cast(pa.int32()))


def _micros(values: AnyArray) -> AnyArray:
    return avro_encoding.longs(values.cast(pa.int64()))


def _millis(values: AnyArray) -> AnyArray:
    """Convert to milliseconds, rounded down, also before 1970."""
    micros = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return avro_encoding.varints(micros // _MICROS_PER_MILLI)


def _checked_ints(what: str) -> Pieces:
    def write(values: AnyArray) -> AnyArray:
        low, high = integer(-_INT_MAX - 1, pa.int64()), integer(_INT_MAX, pa.int64())
        is_over = compute.or_(compute.less(values, low), compute.greater(values, high))
        _refuse_any(is_over, values, f"{what or 'the value'} is no int")
        return avro_encoding.longs(values)

    return write


def _fixed(schema: Fixed, kind: Any, what: str) -> Pieces | None:
    if schema.logical == DECIMAL:
        if pa.types.is_decimal(kind) and _has_room(schema, kind):
            return _fixed_decimals(schema, what)
        return None
    if schema.logical == UUID and kind == pa.string():
        return _uuids(what)
    if kind != pa.binary():
        return None

    def write(values: AnyArray) -> AnyArray:
        size = integer(schema.size_bytes, pa.int32())
        is_other = compute.not_equal(compute.binary_length(values), size)
        reason = (
            f"{what or 'the value'} does not have the {schema.size_bytes} bytes of {schema.name}"
        )
        _refuse_any(is_other, values, reason)
        return values

    return write


def _fixed_decimals(schema: Fixed, what: str) -> Pieces:
    wide = pa.decimal128(38, schema.scale)

    def write(values: AnyArray) -> AnyArray:
        found = avro_encoding.fixed_decimals(values.cast(wide), schema.size_bytes)
        if found is None:
            raise UnwritableRow(
                f"{what or 'the value'} does not fit into the {schema.size_bytes} bytes of "
                f"{schema.name}"
            )
        return found

    return write


def _uuids(what: str) -> Pieces:
    def write(values: AnyArray) -> AnyArray:
        try:
            return binaries([uuid.UUID(each).bytes for each in values.to_pylist()])
        except ValueError as error:
            raise UnwritableRow(f"{what or 'the value'} is not a UUID: {error}") from None

    return write


def _enumeration(schema: Enumeration, what: str) -> Pieces:
    symbols = binaries([each.encode() for each in schema.symbols]).cast(pa.string())

    def write(values: AnyArray) -> AnyArray:
        found = compute.index_in(values, value_set=symbols)
        reason = f"{what or 'the value'} is not a symbol of {schema.name}"
        _refuse_any(found.is_null(), values, reason)
        return avro_encoding.longs(found)

    return write


def _array(item: Pieces) -> Pieces:
    def write(values: AnyArray) -> AnyArray:
        counts = compute.list_value_length(values).to_numpy(zero_copy_only=False)
        return avro_encoding.listed(counts.astype(np.int64), item(values.flatten()))

    return write


def _map(item: Pieces) -> Pieces:
    def write(values: AnyArray) -> AnyArray:
        bounds = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
        keys = avro_encoding.slices(values.keys.slice(first, count))
        pairs = avro_encoding.joined(keys, item(values.items.slice(first, count)))
        return avro_encoding.listed(bounds[1:] - bounds[:-1], pairs)

    return write


def _record(schema: Record, kind: Any, what: str) -> Pieces:
    columns = {field.name.lower(): place for place, field in enumerate(kind.fields)}
    parts: list[tuple[int, Pieces] | bytes] = []
    for field in schema.fields:
        place = columns.pop(field.name.lower(), None)
        if place is None:
            parts.append(_of_default(field, what))
        else:
            inner = pieces_of(field.schema, kind.field(place).type, _inside(what, field.name))
            parts.append((place, inner))
    if columns:
        extra = ", ".join(kind.field(place).name for place in columns.values())
        raise UnsupportedSchema(
            f"the schema {schema.name} has no field {_inside(what, extra)}: leave it out of the "
            "rows, or add it to the schema"
        )

    def write(values: AnyArray) -> AnyArray:
        found = values.flatten()
        pieces = [
            avro_encoding.repeated(part, len(values))
            if isinstance(part, bytes)
            else part[1](found[part[0]])
            for part in parts
        ]
        return avro_encoding.joined(*pieces) if pieces else avro_encoding.repeated(b"", len(values))

    return write


def _of_default(field: Field, what: str) -> bytes:
    """Return the encoded default of a field that the rows do not have."""
    place = _inside(what, field.name)
    if not field.has_default and not nullable(field.schema)[0]:
        raise UnsupportedSchema(
            f"the rows have no column {place}, and the schema has no default for it"
        )
    kind: Any = column_type(field.schema, place)
    # A nullable field without a default is null if it is missing.
    value = pa.array([default_value(field, place)], kind)
    piece: bytes = pieces_of(field.schema, kind, place)(value)[0].as_py()
    return piece


def _union(schema: Union, kind: Any, what: str) -> Pieces:
    """Take the first branch that can hold the type; structs choose one by member."""
    is_nullable, members = nullable(schema)
    null_number = schema.branches.index(NULL) if is_nullable else None
    if kind == pa.null():
        if null_number is None:
            raise UnsupportedSchema(
                f"{what or 'the value'} is always null, and the schema has no null"
            )
        return lambda values: avro_encoding.varints(np.full(len(values), null_number, np.int64))
    if _are_members(kind, len(members)):
        branches = [
            (schema.branches.index(member), pieces_of(member, kind.field(place).type, what))
            for place, member in enumerate(members)
        ]
        return _members(branches, null_number, what)
    number, write = _first_fitting(schema, kind, what)
    return _one_branch(number, write, null_number, what)


def _first_fitting(schema: Union, kind: Any, what: str) -> tuple[int, Pieces]:
    reason: UnsupportedSchema | None = None
    # A branch of the same type comes before compatible ones: a bigint is a long, not an int.
    order = sorted(enumerate(schema.branches), key=lambda each: column_type(each[1]) != kind)
    for number, branch in order:
        try:
            write = None if branch == NULL else _branch(branch, kind, what)
        except UnsupportedSchema as error:
            reason = error
        else:
            if write is not None:
                return number, write
    raise reason or UnsupportedSchema(
        f"{what or 'the value'} is of type {ddl(kind)}, and the schema has {name_of(schema)}"
    )


def _one_branch(number: int, write: Pieces, null_number: int | None, what: str) -> Pieces:
    def write_union(values: AnyArray) -> AnyArray:
        there = values.drop_null() if values.null_count else values
        if len(there) < len(values) and null_number is None:
            raise UnwritableRow(
                f"{what or 'the value'} is null in a row, and the schema has no null"
            )
        branch = avro_encoding.varints(np.full(1, number, np.int64))[0]
        found = avro_encoding.joined(branch, write(there))
        if len(there) == len(values):
            return found
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        null = avro_encoding.varints(np.full(1, null_number, np.int64))[0]
        return compute.fill_null(scatter(len(values), [(rows, found)], pa.binary()), null)

    return write_union


def _members(branches: list[tuple[int, Pieces]], null_number: int | None, what: str) -> Pieces:
    def write_union(values: AnyArray) -> AnyArray:
        columns = values.flatten()
        is_there = [column.is_valid().to_numpy(zero_copy_only=False) for column in columns]
        counts = np.sum(is_there, axis=0)
        if bool((counts > 1).any()) or (null_number is None and bool((counts == 0).any())):
            raise UnwritableRow(
                f"{what or 'the value'} must have exactly one member in each row, not "
                f"{int(counts.max()) if bool((counts > 1).any()) else 'none'}"
            )
        parts = []
        for (number, write), column, there in zip(branches, columns, is_there, strict=True):
            rows = np.flatnonzero(there)
            branch = avro_encoding.varints(np.full(1, number, np.int64))[0]
            chosen = column.take(numbers(rows, pa.int64()))
            parts.append((rows, avro_encoding.joined(branch, write(chosen))))
        whole = scatter(len(values), parts, pa.binary())
        if null_number is None:
            return whole
        return compute.fill_null(whole, avro_encoding.varints(np.full(1, null_number, np.int64))[0])

    return write_union


def _are_members(kind: Any, count: int) -> bool:
    if count < 2 or not pa.types.is_struct(kind):
        return False
    return [field.name for field in kind.fields] == [f"member{place}" for place in range(count)]


def _has_room(schema: Plain | Fixed, kind: Any) -> bool:
    """Whether a decimal's digits fit another one, before and after the point."""
    whole = kind.precision - kind.scale
    return bool(kind.scale <= schema.scale and whole <= schema.precision - schema.scale)


def _inside(what: str, name: str) -> str:
    return f"{what}.{name}" if what else name


def _refuse_any(is_bad: AnyArray, values: AnyArray, reason: str) -> None:
    if compute.any(is_bad).as_py():
        shown = values.filter(is_bad)[0].as_py()
        raise UnwritableRow(f"{reason}: {shown!r:.80}")

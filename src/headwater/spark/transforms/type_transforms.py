"""Transforms that change types: Cast and TimestampConverter.

Numbers are narrowed as Java narrows them: integers keep their low bits, fractions are cut off, and
a float that is too large becomes the largest integer. Spark's own casts fail there, or return null.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from headwater.spark.exceptions import InvalidOption
from headwater.spark.transforms.field_transforms import whole_or_field
from headwater.spark.transforms.record_columns import (
    Changed,
    failing,
    part_of,
    plain_fields,
    rebuilt,
    struct_of,
)
from headwater.spark.transforms.transform_config import TransformSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TYPES: Final = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float32": FloatType(),
    "float64": DoubleType(),
    "boolean": BooleanType(),
    "string": StringType(),
}
_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_FRACTIONS: Final = (FloatType, DoubleType)
_DAY_MS: Final = 86_400_000
_ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_INTEGER: Final = r"\A[+-]?[0-9]+\z"
_UTC: Final = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
_PER_MS: Final = {"microseconds": 1_000, "nanoseconds": 1_000_000}


def cast(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Convert fields, or the whole key or value, to other types."""
    part = part_of(frame, spec)
    casts = [each.rpartition(":") for each in spec.names("spec")]
    if not casts[0][0]:
        column, kind = whole_or_field(frame, part, "")
        changed, failure = _cast(column, kind, casts[0][2].strip(), f"{spec}: the {part}")
        return Changed(columns={part: changed}, failure=failure)
    fields = plain_fields(part, struct_of(frame, part, spec))
    reasons = []
    for written, _, target in casts:
        name = written.strip()
        if name in fields:
            column, kind = whole_or_field(frame, part, name)
            whose = f"{spec}: the field {name}"
            fields[name], failure = _cast(column, kind, target.strip(), whose)
            reasons += [] if failure is None else [failure]
    whole = rebuilt(part, fields, spec)
    return Changed(columns={part: whole}, failure=f.coalesce(*reasons) if reasons else None)


def _cast(
    column: "Column", kind: DataType, target: str, whose: str
) -> "tuple[Column, Column | None]":
    """Return a converted column, and why a value of it cannot be converted."""
    if isinstance(kind, StringType):
        return _from_text(column, target)
    if target == "string":
        return _to_text(column, kind, whose), None
    if isinstance(kind, DateType):
        column, kind = f.unix_date(column), IntegerType()
    elif isinstance(kind, TimestampType):
        column, kind = f.unix_millis(column), LongType()
    if isinstance(kind, BooleanType):
        return column if target == "boolean" else column.cast("int").cast(_TYPES[target]), None
    if isinstance(kind, DecimalType):
        # Java takes the low bits of the integer part.
        if target in ("float32", "float64"):
            return column.cast(_TYPES[target]), None
        column, kind = _low_bits_of_decimal(column), LongType()
    if not isinstance(kind, (*_INTEGERS, *_FRACTIONS)):
        raise InvalidOption(f"{whose} is of type {kind.simpleString()}: it cannot become {target}")
    if target == "boolean":
        return _saturated(column, kind, 64) != 0, None
    bits = _BITS.get(target)
    if bits is None:
        return column.cast(_TYPES[target]), None
    # A float becomes an int first, of which a smaller type takes the low bits.
    return _low_bits(_saturated(column, kind, max(bits, 32)), bits, target), None


def _from_text(column: "Column", target: str) -> "tuple[Column, Column | None]":
    if target == "string":
        return column, None
    if target == "boolean":
        return f.lower(column) == "true", None
    if target in _BITS:
        # Java's parser takes neither spaces nor fractions, Spark's takes both.
        read = f.when(column.rlike(_INTEGER), column.try_cast(_TYPES[target]))
    else:
        read = column.try_cast(_TYPES[target])
    is_wrong = column.isNotNull() & read.isNull()
    return read, failing(is_wrong, "the value (", column, f") cannot be cast to {target}")


def _to_text(column: "Column", kind: DataType, whose: str) -> "Column":
    match kind:
        case BinaryType():
            return f.base64(column)
        case DateType():
            # As Kafka's Values formats dates: those up to the first day look like a time.
            looks_like_time = f.unix_date(column) < 1
            text = f.date_format(column, "yyyy-MM-dd")
            return f.when(looks_like_time, "00:00:00.000Z").otherwise(text)
        case TimestampType():
            ms = f.unix_millis(column)
            text = (
                f.when(ms < _DAY_MS, f.date_format(column, "HH:mm:ss.SSS'Z'"))
                .when(f.pmod(ms, f.lit(_DAY_MS)) == 0, f.date_format(column, "yyyy-MM-dd"))
                .otherwise(f.date_format(column, _ISO))
            )
            return f.when(column.isNotNull(), text)
        case _ if isinstance(kind, (BooleanType, DecimalType, *_INTEGERS, *_FRACTIONS)):
            return column.cast("string")
        case _:
            raise InvalidOption(f"{whose} is of type {kind.simpleString()}: it cannot become text")


def _saturated(column: "Column", kind: DataType, bits: int) -> "Column":
    """Return an integer of 64 bits; what does not fit is the nearest that does."""
    if not isinstance(kind, _FRACTIONS):
        return column.cast("bigint")
    number = column.cast("double")
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return (
        f.when(f.isnan(number), f.lit(0))
        .when(number >= float(1 << bits - 1), f.lit(high))
        .when(number <= float(low), f.lit(low))
        .otherwise(number.try_cast("bigint"))
    )


def _low_bits(column: "Column", bits: int, target: str) -> "Column":
    if bits == 64:
        return column
    mask, sign = (1 << bits) - 1, 1 << bits - 1
    wrapped = column.bitwiseAND(f.lit(mask)).bitwiseXOR(f.lit(sign)) - f.lit(sign)
    return wrapped.cast(_TYPES[target])


def _low_bits_of_decimal(column: "Column") -> "Column":
    whole = f.when(column < 0, f.ceil(column)).otherwise(f.floor(column))
    return whole.try_cast("bigint")


def timestamp_converter(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Convert between timestamps, dates, numbers and text."""
    part, name = part_of(frame, spec), spec.config.get("field", "")
    if not name:
        column, kind = whole_or_field(frame, part, "")
        changed, failure = _converted(frame, column, kind, spec)
        return Changed(columns={part: changed}, failure=failure)
    fields = plain_fields(part, struct_of(frame, part, spec))
    if name not in fields:
        return Changed()
    column, kind = whole_or_field(frame, part, name)
    fields[name], failure = _converted(frame, column, kind, spec)
    return Changed(columns={part: rebuilt(part, fields, spec)}, failure=failure)


def _converted(
    frame: "DataFrame", column: "Column", kind: DataType, spec: TransformSpec
) -> "tuple[Column, Column | None]":
    pattern, target = spec.config.get("format", ""), spec.config["target.type"]
    precision = spec.config.get("unix.precision", "milliseconds")
    if isinstance(kind, StringType) or target == "string":
        need_utc(frame, spec)
    failure = None
    match kind:
        case TimestampType():
            if target == "Timestamp":
                return column, None
            ms = f.unix_millis(column)
        case TimestampNTZType():
            raise InvalidOption(f"{spec}: a timestamp without time zone is not a point in time")
        case DateType():
            ms = f.unix_date(column).cast("bigint") * f.lit(_DAY_MS)
        case LongType():
            ms = _ms_of(column, precision)
        case StringType():
            if not pattern:
                raise InvalidOption(f"{spec} needs a format to read text")
            read = f.try_to_timestamp(column, f.lit(pattern))
            is_wrong = column.isNotNull() & read.isNull()
            failure = failing(is_wrong, "the value (", column, f") does not match {pattern}")
            ms = f.unix_millis(read)
        case _:
            raise InvalidOption(f"{spec}: {kind.simpleString()} is not a type of timestamps")
    match target:
        case "string":
            return f.date_format(f.timestamp_millis(ms), pattern), failure
        case "unix":
            return _unix_of(ms, precision), failure
        case "Date":
            days = _quotient(ms - f.pmod(ms, f.lit(_DAY_MS)), _DAY_MS)
            return f.date_from_unix_date(days.cast("int")), failure
        case _:
            return f.timestamp_millis(ms), failure


def need_utc(frame: "DataFrame", spec: TransformSpec) -> None:
    """Raise if Spark would format times in another zone: Kafka Connect uses UTC."""
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone") or ""
    if zone not in _UTC:
        raise InvalidOption(f"{spec} needs spark.sql.session.timeZone UTC, not {zone}")


def _ms_of(column: "Column", precision: str) -> "Column":
    if precision == "seconds":
        return column * f.lit(1_000)
    per_ms = _PER_MS.get(precision)
    return column if per_ms is None else _quotient(column, per_ms)


def _unix_of(ms: "Column", precision: str) -> "Column":
    if precision == "seconds":
        return _quotient(ms, 1_000)
    per_ms = _PER_MS.get(precision)
    return ms if per_ms is None else ms * f.lit(per_ms)


def _quotient(column: "Column", divisor: int) -> "Column":
    """Divide integers as Java does, towards zero."""
    return f.call_function("div", column, f.lit(divisor))

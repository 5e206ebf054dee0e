"""Write typed columns as JSON, in the form of Spark's `to_json`.

Note: null fields are left out, as in Spark, unless they are asked for. A value that is null as a
whole becomes a null value, a tombstone, and not the JSON word null.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from headwater.records.arrow_values import integer, integers, null, text

# An Arrow array of any type; the stubs would distinguish arrays, chunked arrays and scalars.
AnyArray = Any
compute: Any = pyarrow.compute

_SHORT: Final = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}
_CONTROL: Final = r"[\x00-\x1f]"
_EMPTY: Final = text("")
_NULL: Final = text("null")


def write_json(values: AnyArray, *, with_nulls: bool = False) -> AnyArray:
    """Write values of the types in `json_types` as UTF-8.

    `with_nulls` writes null fields, as Spark does with `ignoreNullFields=false`.
    """
    return _texts(values, with_nulls=with_nulls).cast(pa.binary())


def _texts(values: AnyArray, *, with_nulls: bool) -> AnyArray:
    kind = values.type
    if pa.types.is_struct(kind):
        return _objects(values, with_nulls=with_nulls)
    if pa.types.is_list(kind):
        return _lists(values, with_nulls=with_nulls)
    if pa.types.is_string(kind):
        return _quoted(_escaped(values))
    if pa.types.is_timestamp(kind):
        return _quoted(_times(values))
    if pa.types.is_date32(kind):
        return _quoted(values.cast(pa.string()))
    if pa.types.is_floating(kind):
        # JSON has no such numbers, so Spark writes them as strings.
        plain = values.cast(pa.string())
        return compute.if_else(compute.is_finite(values), plain, _quoted(_odd_numbers(values)))
    return values.cast(pa.string())


def _objects(values: AnyArray, *, with_nulls: bool) -> AnyArray:
    members: list[AnyArray] = [pa.repeat(_EMPTY, len(values))]
    # Unlike `field`, `flatten` propagates the nulls of the struct to its fields.
    for field, part in zip(values.type.fields, values.flatten(), strict=True):
        name = _quoted(_escaped(pa.repeat(text(field.name), 1)))[0].as_py()
        texts = _texts(part, with_nulls=with_nulls)
        if with_nulls:
            texts = compute.fill_null(texts, _NULL)
        members.append(compute.fill_null(_joined(text(f",{name}:"), texts), _EMPTY))
    # Arrow's own way to skip nulls loses rows in which all are null.
    inside = compute.utf8_ltrim(_joined(*members), characters=",")
    whole = _joined(text("{"), inside, text("}"))
    return compute.if_else(values.is_valid(), whole, null(pa.string()))


def _lists(values: AnyArray, *, with_nulls: bool) -> AnyArray:
    parts = compute.fill_null(_texts(values.flatten(), with_nulls=with_nulls), _NULL)
    lengths = compute.fill_null(compute.list_value_length(values), integer(0, pa.int32()))
    ends = compute.cumulative_sum(lengths)
    offsets = pa.concat_arrays([integers([0], pa.int32()), ends.cast(pa.int32())])
    joined = compute.binary_join(pa.ListArray.from_arrays(offsets, parts), text(","))
    whole = _joined(text("["), joined, text("]"))
    return compute.if_else(values.is_valid(), whole, null(pa.string()))


def _escaped(texts: AnyArray) -> AnyArray:
    escaped = compute.replace_substring(texts, "\\", "\\\\")
    escaped = compute.replace_substring(escaped, '"', '\\"')
    if not compute.any(compute.match_substring_regex(escaped, _CONTROL)).as_py():
        return escaped
    for code in range(0x20):
        escaped = compute.replace_substring(escaped, chr(code), _SHORT.get(code, f"\\u{code:04x}"))
    return escaped


def _times(times: AnyArray) -> AnyArray:
    """Format timestamps like Spark: milliseconds, and microseconds only if not zero."""
    has_zone = times.type.tz is not None
    # Without a time zone: looking it up for each value takes ten times as long.
    micros = times.cast(pa.int64()).cast(pa.timestamp(times.type.unit)).cast(pa.timestamp("us"))
    millis = micros.cast(pa.timestamp("ms"), safe=False)
    is_whole = compute.equal(millis.cast(micros.type), micros)
    texts = millis.cast(pa.string())
    if not compute.all(is_whole).as_py():
        texts = compute.if_else(is_whole, texts, micros.cast(pa.string()))
    texts = compute.replace_substring(texts, " ", "T")
    return _joined(texts, text("Z")) if has_zone else texts


def _odd_numbers(values: AnyArray) -> AnyArray:
    endless = compute.if_else(
        compute.greater(values, integer(0, pa.int32()).cast(values.type)),
        text("Infinity"),
        text("-Infinity"),
    )
    return compute.if_else(compute.is_nan(values), text("NaN"), endless)


def _quoted(texts: AnyArray) -> AnyArray:
    return _joined(text('"'), texts, text('"'))


def _joined(*parts: AnyArray) -> AnyArray:
    return compute.binary_join_element_wise(*parts, _EMPTY)

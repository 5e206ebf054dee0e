"""Read JSON into typed columns, a column at a time.

Arrow's reader takes one stream of documents and reports only their number, so records must not run
into each other. Each record is wrapped in `{"v":` and `}` with a line end: a truncated record is
then an error, since a line end can stand neither in a string nor between two members, and a record
with trailing content yields a row too many.
"""

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.json

from headwater.records.arrow_values import binary, nulls

# An Arrow array of any type; the stubs would distinguish arrays, chunked arrays and scalars.
AnyArray = Any
compute: Any = pyarrow.compute
arrow_json: Any = pyarrow.json

_BEFORE: Final = binary(b'{"v":')
_AFTER: Final = binary(b"}\n")
_NOTHING: Final = binary(b"")
_NULL: Final = binary(b"null")
_WHERE: Final = re.compile(r"Column\(/v(/?)([^)]*)\)")
_ROW: Final = re.compile(r" in row \d+|^JSON parse error: ")


class NotJson(Exception):
    """A record does not match its type; `index` counts from the first record."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


def read_json(values: AnyArray, kind: pa.DataType, *, is_lenient: bool = False) -> AnyArray:
    """Parse JSON as values of a type; null stays null, `NotJson` if one differs.

    If lenient, a record that does not match is null as well.
    """
    try:
        return _parsed(values, kind)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        count = len(values)
        if count > 1:
            return _in_halves(values, kind, is_lenient=is_lenient)
        if is_lenient:
            return _nulls(count, kind)
        raise NotJson(0, _reason(str(error))) from None


def _in_halves(values: AnyArray, kind: pa.DataType, *, is_lenient: bool) -> AnyArray:
    """Bisect to the record that does not match; also splits too large columns."""
    half = len(values) // 2
    first = read_json(values.slice(0, half), kind, is_lenient=is_lenient)
    try:
        second = read_json(values.slice(half), kind, is_lenient=is_lenient)
    except NotJson as error:
        raise NotJson(half + error.index, str(error)) from None
    return pa.concat_arrays([first, second])


def _parsed(values: AnyArray, kind: pa.DataType) -> AnyArray:
    if not len(values):
        return _nulls(0, kind)
    documents = compute.binary_join_element_wise(
        _BEFORE, compute.fill_null(values, _NULL), _AFTER, _NOTHING
    )
    raw = documents.buffers()[2]
    assert raw is not None
    table = arrow_json.read_json(
        pa.BufferReader(raw),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=raw.size + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema([("v", _as_read(kind))]),
            newlines_in_values=True,
            unexpected_field_behavior="ignore",
        ),
    )
    found = table.column("v").combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = found.chunk(0)
    if len(found) != len(values):
        raise pa.ArrowInvalid("there is more than one JSON document")
    # Arrow's reader does not check that strings are UTF-8.
    found.validate(full=True)
    return found.cast(kind)


def _nulls(count: int, kind: pa.DataType) -> AnyArray:
    return nulls(count, kind)


def _as_read(kind: pa.DataType) -> pa.DataType:
    """Return the type to request from Arrow's reader, which has dates only as numbers."""
    if pa.types.is_date32(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_read(field.type)) for field in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_read(kind.value_type)))
    return kind


def _reason(reason: str) -> str:
    """Return Arrow's message in one line, without the wrapper."""
    named = _WHERE.sub(lambda found: f"the field {found[2]}" if found[2] else "it", reason)
    return _ROW.sub("", named).splitlines()[0]

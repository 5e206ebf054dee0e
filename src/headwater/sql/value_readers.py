"""Read keys or values as columns: text, bytes, JSON, Avro, Protobuf.

A record that does not fit its type has nulls in these columns, and a reason by row number.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute

from headwater.client.serialization.schema_registry_serde import PREFIX_BYTES
from headwater.spark.formats.json.json_reader import NotJson, read_json
from headwater.sql.json_columns import ObjectOf, arrow_type

# An Arrow array of any type; the stubs would distinguish arrays, chunked arrays and scalars.
AnyArray = Any
AnyField = Any
compute: Any = pyarrow.compute

_MAGIC: Final = b"\x00"
_REASONS_MAX: Final = 10
_NO_PREFIX: Final = "it does not begin with 0 and the id of a schema"


@dataclass(frozen=True, slots=True)
class ReadParts:
    """Columns by name, and why rows do not fit; further reasons may be left out."""

    columns: dict[str, AnyArray]
    misfits: dict[int, str] = field(default_factory=dict)


class ValueReader(Protocol):
    """Reads a binary column as one or several columns."""

    @property
    def format(self) -> str:
        """The name for users: json, avro, ..."""
        ...

    @property
    def fields(self) -> Sequence[AnyField]:
        """All columns."""
        ...

    def read(self, values: AnyArray, names: Sequence[str]) -> ReadParts:
        """Read some of the columns; nulls are null in all of them."""
        ...


class BytesReader:
    """One column of bytes."""

    format = "bytes"

    def __init__(self, name: str) -> None:
        self.fields = (pa.field(name, pa.binary()),)

    def read(self, values: AnyArray, names: Sequence[str]) -> ReadParts:
        return ReadParts(dict.fromkeys(names, values))


class TextReader:
    """One column of UTF-8."""

    format = "text"

    def __init__(self, name: str) -> None:
        self.fields = (pa.field(name, pa.string()),)

    def read(self, values: AnyArray, names: Sequence[str]) -> ReadParts:
        if not names:
            return ReadParts({})
        try:
            return ReadParts(dict.fromkeys(names, values.cast(pa.string())))
        except pa.ArrowInvalid:
            return self._one_by_one(values, names)

    def _one_by_one(self, values: AnyArray, names: Sequence[str]) -> ReadParts:
        texts: list[str | None] = []
        misfits = {}
        for row, raw in enumerate(values.to_pylist()):
            try:
                texts.append(None if raw is None else raw.decode())
            except UnicodeDecodeError:
                texts.append(None)
                misfits[row] = "it is not UTF-8"
        array: Any = pa.array
        return ReadParts(dict.fromkeys(names, array(texts, pa.string())), misfits)


class JsonReader:
    """A column per field of JSON objects; fields of several types as JSON text."""

    def __init__(self, kind: ObjectOf, *, has_prefix: bool = False) -> None:
        self.format = "JSON Schema" if has_prefix else "json"
        self._has_prefix = has_prefix
        self._types = {name: arrow_type(each) for name, each in kind.fields.items()}
        self.fields = tuple(
            pa.field(name, pa.string() if kind is None else kind)
            for name, kind in self._types.items()
        )

    def read(self, values: AnyArray, names: Sequence[str]) -> ReadParts:
        if not names:
            return ReadParts({})
        misfits: dict[int, str] = {}
        if self._has_prefix:
            values = _without_prefix(values, misfits)
        fields = [pa.field(name, kind) for name in names if (kind := self._types[name]) is not None]
        columns: dict[str, AnyArray] = {}
        texts = [name for name in names if self._types[name] is None]
        if texts:
            columns |= _json_texts(values, texts, misfits)
        if fields:
            columns |= _json_fields(values, fields, misfits)
        return ReadParts({name: columns[name] for name in names}, misfits)


class JsonTextReader:
    """One column with the JSON after the id of its schema, as text."""

    format = "JSON Schema"

    def __init__(self, name: str) -> None:
        self._texts = TextReader(name)
        self.fields = self._texts.fields

    def read(self, values: AnyArray, names: Sequence[str]) -> ReadParts:
        misfits: dict[int, str] = {}
        found = self._texts.read(_without_prefix(values, misfits), names)
        return ReadParts(found.columns, {**misfits, **found.misfits})


def _without_prefix(values: AnyArray, misfits: dict[int, str]) -> AnyArray:
    """Cut off byte 0 and the schema id."""
    is_framed = compute.equal(compute.binary_slice(values, 0, 1), pa.scalar(_MAGIC, pa.binary()))
    for row, is_good in enumerate(is_framed.to_pylist()) if not _all(is_framed) else ():
        if is_good is False:
            misfits[row] = _NO_PREFIX
    framed = compute.if_else(is_framed, values, pa.scalar(None, pa.binary()))
    return compute.binary_slice(framed, PREFIX_BYTES, 2**31 - 1)


def _all(flags: AnyArray) -> bool:
    return bool(compute.all(flags, skip_nulls=True, min_count=0).as_py())


def _json_fields(
    values: AnyArray, fields: list[AnyField], misfits: dict[int, str]
) -> dict[str, AnyArray]:
    kind = pa.struct(fields)
    found = read_json(values, kind, is_lenient=True)
    if found.null_count != values.null_count:
        _explain(values, found, kind, misfits)
    # Unlike `field`, `flatten` propagates the nulls of the struct to its fields.
    return dict(zip((each.name for each in fields), found.flatten(), strict=True))


def _explain(values: AnyArray, found: AnyArray, kind: Any, misfits: dict[int, str]) -> None:
    """Say of some rows why they are null, and of all that they are."""
    is_misfit = compute.and_(found.is_null(), values.is_valid())
    for row in compute.indices_nonzero(is_misfit).to_pylist():
        if values[row].as_py().strip() == b"null" or row in misfits:
            continue
        reason = "it does not fit"
        if len(misfits) < _REASONS_MAX:
            try:
                read_json(values.slice(row, 1), kind)
            except NotJson as error:
                reason = str(error)
        misfits[row] = reason


def _json_texts(values: AnyArray, names: list[str], misfits: dict[int, str]) -> dict[str, AnyArray]:
    """Fields as JSON text, one record after the other."""
    columns: dict[str, list[str | None]] = {name: [] for name in names}
    for row, raw in enumerate(values.to_pylist()):
        record: Any = None
        if raw is not None:
            try:
                record = json.loads(raw)
            except (ValueError, RecursionError) as error:
                misfits.setdefault(row, f"it is not JSON: {error}")
        if record is not None and not isinstance(record, dict):
            misfits.setdefault(row, "it is not a JSON object")
            record = None
        for name, texts in columns.items():
            field_value = None if record is None else record.get(name)
            texts.append(
                None if field_value is None else json.dumps(field_value, ensure_ascii=False)
            )
    array: Any = pa.array
    return {name: array(texts, pa.string()) for name, texts in columns.items()}


class StructReader:
    """Columns from a reader of whole values, as those of Avro and Protobuf."""

    def __init__(
        self, name: str, format_name: str, reader_of: "ReaderOf", *, is_whole: bool
    ) -> None:
        """One column of this name if `is_whole` or if the values are not records."""
        self.format = format_name
        self._name = name
        self._reader_of = reader_of
        kind: Any = reader_of.kind
        self._is_struct = pa.types.is_struct(kind) and not is_whole
        self.fields = tuple(kind.fields) if self._is_struct else (pa.field(name, kind),)

    def read(self, values: AnyArray, names: Sequence[str]) -> ReadParts:
        if not names:
            return ReadParts({})
        chosen = tuple(names) if self._is_struct else None
        found = self._reader_of(chosen).read(_plain(values))
        if chosen is None:
            return ReadParts({self._name: found.values}, found.unreadable)
        there = [each.name for each in found.values.type.fields]
        columns = dict(zip(there, found.values.flatten(), strict=True))
        return ReadParts({name: columns[name] for name in names}, found.unreadable)


def _plain(values: AnyArray) -> AnyArray:
    """Values whose buffers start at their first row, as the readers require."""
    return values if values.offset == 0 else pa.concat_arrays([values])


class ReaderOf(Protocol):
    """Makes readers of some fields of a schema."""

    @property
    def kind(self) -> Any:
        """The Arrow type of whole values."""
        ...

    def __call__(self, names: tuple[str, ...] | None) -> Any:
        """A reader of these fields, or of the whole value."""
        ...

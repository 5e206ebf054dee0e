"""PostgreSQL through ADBC: connections, names and types.

ADBC gives and takes Arrow, so that no row becomes a Python object; its driver comes as a wheel, and
needs no Java and no jar.
"""

import importlib
from collections.abc import Iterator
from typing import Any, Final, Protocol

import pyarrow as pa

from headwater.common.exceptions import HeadwaterError
from headwater.spark.exceptions import InvalidOption, WrongColumns


class DatabaseAway(HeadwaterError):
    """The database cannot be reached, or lets nobody in."""


class PostgresqlConnection(Protocol):
    """The part of ADBC's connections that is used here."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


_TYPES: Final[list[tuple[Any, str]]] = [
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_integer, "INTEGER"),
    (pa.types.is_float32, "REAL"),
    (pa.types.is_floating, "DOUBLE PRECISION"),
    (pa.types.is_string, "TEXT"),
    (pa.types.is_large_string, "TEXT"),
    (pa.types.is_date, "DATE"),
]
_SCHEMES: Final = ("postgresql://", "postgres://")


def connect(uri: str) -> PostgresqlConnection:
    """A connection whose changes are one transaction until they are committed."""
    if not uri.startswith(_SCHEMES):
        raise InvalidOption(f"uri begins with {_SCHEMES[0]}, and not as in {uri.partition(':')[0]}")
    try:
        # It has no types.
        dbapi: Any = importlib.import_module("adbc_driver_postgresql.dbapi")
    except ImportError as error:
        raise InvalidOption(
            "adbc-driver-postgresql is not installed: pip install headwater[connect]"
        ) from error
    try:
        made: PostgresqlConnection = dbapi.connect(uri)
    except dbapi.Error as error:
        # The address may have a password in it, and is not told.
        raise DatabaseAway(str(error).splitlines()[0]) from error
    return made


def type_of(field: "pa.Field[Any]") -> str:
    """The type of a column that holds such values."""
    kind = field.type
    if isinstance(kind, pa.TimestampType):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMPTZ"
    for is_such, name in _TYPES:
        if is_such(kind):
            return name
    raise WrongColumns(f"the column {field.name} of type {kind} has no form in a table")


def identifier(name: str) -> str:
    """A name in a statement, whatever it is; `schema.table` has two."""
    if "\0" in name or not name:
        raise InvalidOption("a name is empty, or has a zero byte")
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Types that everybody knows: what a database calls its own comes as text."""
    return pa.schema([pa.field(each.name, _plain(each.type)) for each in schema])


def batches_of(found: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What a cursor brings, with plain types."""
    for batch in found:
        arrays = [
            _storage(array).cast(each.type)
            for array, each in zip(batch.columns, schema, strict=True)
        ]
        if batch.num_rows:
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return kind


def _storage(array: Any) -> Any:
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array

"""Access PostgreSQL through ADBC: connections, identifiers and types.

ADBC reads and writes Arrow data, so no row becomes a Python object. Its driver is a Python wheel
and needs no Java.
"""

import importlib
from collections.abc import Iterator
from typing import Any, Final, Protocol

import pyarrow as pa

from headwater.common.exceptions import HeadwaterError
from headwater.spark.exceptions import InvalidOption, WrongColumns


class DatabaseUnavailable(HeadwaterError):
    """The database is unreachable or rejects the connection."""


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


def check_uri(uri: str) -> None:
    if not uri.startswith(_SCHEMES):
        raise InvalidOption(f"uri must start with {_SCHEMES[0]}, not {uri.partition(':')[0]}")


def connect(uri: str) -> PostgresqlConnection:
    """Connect. Changes form one transaction until they are committed."""
    check_uri(uri)
    try:
        # The package has no type hints.
        dbapi: Any = importlib.import_module("adbc_driver_postgresql.dbapi")
    except ImportError as error:
        raise InvalidOption(
            "adbc-driver-postgresql is not installed: pip install headwater[connect]"
        ) from error
    try:
        connection: PostgresqlConnection = dbapi.connect(uri)
    except dbapi.Error as error:
        # Do not repeat the URI, which may contain a password.
        raise DatabaseUnavailable(str(error).splitlines()[0]) from error
    return connection


def type_of(field: "pa.Field[Any]") -> str:
    """SQL type for an Arrow field."""
    kind = field.type
    if isinstance(kind, pa.TimestampType):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMPTZ"
    for matches, name in _TYPES:
        if matches(kind):
            return name
    raise WrongColumns(f"column {field.name} has type {kind}, which has no SQL type")


def identifier(name: str) -> str:
    """Quote a name for a statement; `schema.table` is quoted in two parts."""
    if "\0" in name or not name:
        raise InvalidOption("a name is empty or contains a NUL character")
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Replace database-specific types by their storage types, such as text."""
    return pa.schema([pa.field(each.name, _plain(each.type)) for each in schema])


def batches_of(found: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of a cursor, converted to plain types."""
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

"""Accept Arrow tables and objects that export Arrow data.

Data frames of pandas and polars and relations of DuckDB do so with Arrow's PyCapsule interface,
mostly without a copy.
"""

from reprlib import repr as shortened
from typing import Protocol

import pyarrow as pa

from headwater.client.errors import InvalidArgument


class ArrowStream(Protocol):
    """The stream of Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


TableLike = pa.Table | pa.RecordBatch | ArrowStream


def as_arrow(given: TableLike) -> pa.Table | pa.RecordBatch:
    if isinstance(given, pa.Table | pa.RecordBatch):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    raise InvalidArgument(
        "a table must be an Arrow table, or export Arrow data (__arrow_c_stream__), "
        f"not {shortened(given)}"
    )

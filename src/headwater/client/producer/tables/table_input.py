"""What callers hand in as a table: Arrow's own, or anything that gives itself out as Arrow.

Data frames of pandas and polars, and relations of DuckDB, do so by Arrow's PyCapsule interface, and
mostly without a copy.
"""

from reprlib import repr as shortened
from typing import Protocol

import pyarrow as pa

from headwater.client.errors import InvalidArgument


class ArrowStream(Protocol):
    """The stream of Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


GivenTable = pa.Table | pa.RecordBatch | ArrowStream


def as_arrow(given: GivenTable) -> pa.Table | pa.RecordBatch:
    if isinstance(given, pa.Table | pa.RecordBatch):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    raise InvalidArgument(
        "a table is one of Arrow, or a data frame that can be one (it has __arrow_c_stream__), "
        f"and not {shortened(given)}"
    )

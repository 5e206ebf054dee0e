"""Arrow scalars and arrays from a few Python values.

Note: `pa.scalar` and `pa.array` would do the same, but they check for pandas objects and import
pandas if it is installed. That takes a second or two, in each of the half dozen processes that
Spark starts for a query.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

# The stubs have a type per scalar and array type; callers do not distinguish them.
AnyArray = Any
AnyScalar = Any

# The stubs accept one kind of type at a time.
_nulls: Any = pa.nulls
_CODES: Final[dict[Any, str]] = {pa.int16(): "h", pa.int32(): "i", pa.int64(): "q"}


def text(value: str) -> AnyScalar:
    return binaries([value.encode()]).cast(pa.string())[0]


def binary(value: bytes) -> AnyScalar:
    return binaries([value])[0]


def integer(value: int, kind: "pa.DataType") -> AnyScalar:
    return integers([value], kind)[0]


def null(kind: "pa.DataType") -> AnyScalar:
    return nulls(1, kind)[0]


def nulls(count: int, kind: "pa.DataType") -> AnyArray:
    return _nulls(count, kind)


def integers(values: Sequence[int], kind: "pa.DataType") -> AnyArray:
    """Return an array of 16, 32 or 64 bit integers."""
    content = pa.py_buffer(array(_CODES[kind], values))
    return pa.Array.from_buffers(kind, len(values), [None, content])


def binaries(values: Sequence[bytes]) -> AnyArray:
    offsets = array("i", accumulate(map(len, values), initial=0))
    content = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), content)

"""Encode columns of primitive Avro types, one piece of bytes per row.

Note: pieces have no nulls. A null is a branch of a union, and the encoder of the union removes
nulls before it asks for the pieces of the other branch.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from headwater.records.arrow_values import binary
from headwater.spark.formats.avro.batch_walk import AnyArray, Bytes, Longs, buffer, numbers

compute: Any = pyarrow.compute

_VARINT_BYTES: Final = 10
_DECIMAL_BYTES: Final = 16
_NOTHING: Final = binary(b"")


def joined(*parts: AnyArray) -> AnyArray:
    """Concatenate pieces row by row; a scalar is repeated in each row."""
    return parts[0] if len(parts) == 1 else compute.binary_join_element_wise(*parts, _NOTHING)


def repeated(piece: bytes, count: int) -> AnyArray:
    return pa.repeat(binary(piece), count)


def longs(values: AnyArray) -> AnyArray:
    """Encode integers of any width, including dates and times."""
    return varints(_numpy(values).astype(np.int64))


def varints(values: Longs) -> AnyArray:
    """Encode zigzag varints: seven bits per byte, lowest first."""
    left = (values.astype(np.uint64) << np.uint64(1)) ^ (values >> 63).astype(np.uint64)
    size = np.ones(len(values), np.int64)
    width = 1
    most = int(left.max()) if len(left) else 0
    while most >> (7 * width) and width < _VARINT_BYTES:
        size += left >= np.uint64(1 << (7 * width))
        width += 1
    raw = np.empty((len(values), width), np.uint8)
    for number in range(width):
        raw[:, number] = (left >> np.uint64(7 * number)).astype(np.uint8) & 0x7F
        raw[:, number] |= np.where(number + 1 < size, 0x80, 0).astype(np.uint8)
    return _pieces(raw[np.arange(width) < size[:, np.newaxis]], size)


def floatings(values: AnyArray) -> AnyArray:
    raw = np.ascontiguousarray(_numpy(values))
    return _fixed(raw.view(np.uint8).reshape(len(raw), raw.itemsize))


def booleans(values: AnyArray) -> AnyArray:
    return _fixed(_numpy(values.cast(pa.uint8())).reshape(-1, 1))


def slices(values: AnyArray) -> AnyArray:
    """Encode strings and bytes, each after its length."""
    raw = values.cast(pa.binary())
    return joined(longs(compute.binary_length(raw)), raw)


def decimals(values: AnyArray) -> AnyArray:
    """Encode decimals: the fewest big-endian bytes, after their count."""
    raw = _high_first(values)
    sign = np.where(raw[:, :1] > 0x7F, 0xFF, 0).astype(np.uint8)
    # A leading byte is redundant if it only repeats the sign bit of the next byte.
    is_idle = (raw[:, :-1] == sign) & ((raw[:, 1:] > 0x7F) == (sign > 0x7F))
    idle = np.cumprod(is_idle, axis=1).sum(axis=1)
    size = _DECIMAL_BYTES - idle
    is_kept = np.arange(_DECIMAL_BYTES) >= idle[:, np.newaxis]
    return joined(varints(size), _pieces(raw[is_kept], size))


def fixed_decimals(values: AnyArray, size_bytes: int) -> AnyArray:
    """Encode decimals with a fixed size. None if a number does not fit."""
    raw = _high_first(values)
    sign = np.where(raw[:, :1] > 0x7F, 0xFF, 0).astype(np.uint8)
    if size_bytes >= _DECIMAL_BYTES:
        ahead = np.repeat(sign, size_bytes - _DECIMAL_BYTES, axis=1)
        return _fixed(np.concatenate([ahead, raw], axis=1))
    kept = raw[:, _DECIMAL_BYTES - size_bytes :]
    cut = raw[:, : _DECIMAL_BYTES - size_bytes]
    if bool((cut != sign).any()) or bool(((kept[:, :1] > 0x7F) != (sign > 0x7F)).any()):
        return None
    return _fixed(kept)


def listed(counts: Longs, items: AnyArray) -> AnyArray:
    """Encode arrays and maps: one block of items, then a count of zero."""
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    offsets = numbers(bounds, pa.int32())
    inside = compute.binary_join(pa.ListArray.from_arrays(offsets, items), _NOTHING)
    end = binary(b"\0")
    whole = joined(varints(counts), inside, end)
    return compute.if_else(
        pa.Array.from_buffers(
            pa.bool_(), len(counts), [None, buffer(np.packbits(counts > 0, bitorder="little"))]
        ),
        whole,
        end,
    )


def _numpy(values: AnyArray) -> npt.NDArray[Any]:
    """Return an array without nulls as a numpy array."""
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found


def _high_first(values: AnyArray) -> Bytes:
    raw = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, _DECIMAL_BYTES)
    found: Bytes = raw[values.offset : values.offset + len(values), ::-1]
    return found


def _fixed(raw: Bytes) -> AnyArray:
    count, size_bytes = raw.shape
    bounds = np.arange(count + 1, dtype=np.int32) * np.int32(size_bytes)
    return pa.Array.from_buffers(pa.binary(), count, [None, buffer(bounds), buffer(raw)])


def _pieces(raw: Bytes, size: Longs) -> AnyArray:
    bounds = np.zeros(len(size) + 1, np.int32)
    np.cumsum(size, out=bounds[1:])
    return pa.Array.from_buffers(pa.binary(), len(size), [None, buffer(bounds), buffer(raw)])

"""The shapes in which the kernel takes and gives records: plain buffers in Arrow's layout.

A column of byte strings is three buffers: a bit per row that says whether it is there (absent
when all are), the places where each string starts and ends, and the strings end to end. Offsets
here are places in `data`, in the machine's byte order; only Arrow's vocabulary calls them so.
"""

from typing import NamedTuple

from headwater.records.batch_header import BatchHeader, Buffer

RecordSection = tuple[Buffer, int, int, BatchHeader]
"""Unpacked records: a buffer, the positions between which they lie, their batch's header."""


class BinaryBuffers(NamedTuple):
    """A column of nullable byte strings, or a slice of one that starts at row `first`."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    first: int = 0
    is_wide: bool = False
    """Whether offsets are of 64 bits (Arrow's large types) instead of 32."""


class ViewBuffers(NamedTuple):
    """A column of nullable byte strings that stay where they are: Arrow's binary views.

    Each view is 16 bytes: a length, and then either the whole string, of up to 12 bytes, or its
    first four bytes, the number of a buffer in `data` and the place in it.
    """

    validity: Buffer | None
    views: Buffer
    data: tuple[Buffer, ...]


class HeaderBuffers(NamedTuple):
    """A column of header lists: row i has the headers from `offsets[i]` to `offsets[i + 1]`."""

    validity: Buffer | None
    offsets: Buffer
    keys: BinaryBuffers
    values: BinaryBuffers | None
    header_count: int
    """How many headers `keys` and `values` hold."""
    first: int = 0
    is_wide: bool = False


class DecodedColumns(NamedTuple):
    """Records as columns."""

    row_count: int
    offsets: Buffer
    timestamps: Buffer
    attributes: Buffer
    keys: BinaryBuffers
    values: BinaryBuffers | ViewBuffers
    headers: HeaderBuffers


class RecordsSummary(NamedTuple):
    """What a walk over the records of a batch found out."""

    is_dense: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""
    has_null_key: bool
    max_timestamp_delta: int | None
    """None where there are no records."""


class RecordsVerdict(NamedTuple):
    """What the validation of a client's records found; broken structure is an exception."""

    is_dense: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""
    has_null_key: bool
    is_in_time: bool
    """Whether all timestamps lie in the topic's window. No timestamp (-1) always does."""
    max_timestamp: int
    """The largest timestamp, -1 where none is larger."""

"""Buffers in Arrow's layout in which the kernel takes and returns records.

A column of byte strings has three buffers: one validity bit per row (absent if there is no null),
the start and end position of each string, and the concatenated strings. In this module `offsets`
are positions in `data`, in native byte order, as Arrow calls them.
"""

from typing import NamedTuple

from headwater.records.batch_header import BatchHeader, Buffer

RecordSection = tuple[Buffer, int, int, BatchHeader]
"""Decompressed records: a buffer, their start and end position in it, their batch's header."""


class BinaryBuffers(NamedTuple):
    """Column of nullable byte strings, or a slice of one that starts at row `first`."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    first: int = 0
    is_wide: bool = False
    """Whether offsets have 64 bits (Arrow's large types) instead of 32."""


class ViewBuffers(NamedTuple):
    """Column of nullable byte strings that are not copied: Arrow's binary views.

    Each view has 16 bytes: a length, then either the whole string of up to 12 bytes, or its first
    four bytes, the index of a buffer in `data` and the position in it.
    """

    validity: Buffer | None
    views: Buffer
    data: tuple[Buffer, ...]


class HeaderBuffers(NamedTuple):
    """Column of header lists: row i has `offsets[i]` to `offsets[i + 1]`."""

    validity: Buffer | None
    offsets: Buffer
    keys: BinaryBuffers
    values: BinaryBuffers | None
    header_count: int
    """Number of headers in `keys` and `values`."""
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
    """Summary of a batch's records."""

    is_dense: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""
    has_null_key: bool
    max_timestamp_delta: int | None
    """None if there are no records."""


class ValidationResult(NamedTuple):
    """Result of validating a client's records; invalid structure raises instead."""

    is_dense: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""
    has_null_key: bool
    is_in_time: bool
    """Whether all timestamps are in the topic's allowed range. No timestamp (-1) always is."""
    max_timestamp: int
    """Largest timestamp, or -1."""

"""One record as a value, for tools, tests, control batches and internal topics.

Never on the hot path: a broker does not open batches, and clients and pipelines use columns.
"""

from dataclasses import dataclass

from headwater.common.ids import NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record. Its header keys hold bytes that are no UTF-8 as surrogate escapes."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int | None = None
    """None, when a batch is built, for the offset after the record before."""

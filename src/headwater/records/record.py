"""One record as a value, for tools, tests, control batches and internal topics.

Never on the hot path: a broker does not open batches, and clients and pipelines use columns.
"""

from dataclasses import dataclass

from headwater.common.ids import NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Record. Header keys hold invalid UTF-8 as surrogate escapes."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int | None = None
    """When a batch is built, None means the offset after the previous record."""

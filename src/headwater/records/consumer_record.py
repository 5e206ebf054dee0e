"""ConsumerRecord: one record as a consumer returns it.

A named tuple, because the kernel creates a hundred thousand of them in the time of a few thousand
ordinary objects, and because a consumed record does not change.
"""

from typing import NamedTuple

from headwater.records.batch_header import TimestampType

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(NamedTuple):
    """Record with its partition and offset.

    Header keys hold invalid UTF-8 as surrogate escapes.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970, or -1."""
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int
    """Leader epoch of the record's batch, or -1; a commit may carry it (KIP-320)."""

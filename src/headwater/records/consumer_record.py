"""One record as a consumer hands it out.

A named tuple, because the kernel makes a hundred thousand of them in the time of a few thousand
ordinary objects, and because a record that was read does not change.
"""

from typing import NamedTuple

from headwater.records.batch_header import TimestampType

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(NamedTuple):
    """A record with its place. Bytes in header keys that are no UTF-8 are surrogate escapes."""

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
    """The epoch of the leader that took it, or -1; a commit may carry it (KIP-320)."""

"""Encode a Fetch response with one partition directly, without message objects.

A consumer at the end of a log gets one response per batch, so this runs nearly as often as Produce.
Only the common case is handled here: no error, no diverging epoch, no aborted transactions (an
empty list for read_committed, otherwise null), no preferred replica. All others use `codec`, and
tests compare both byte by byte.
"""

from struct import Struct
from typing import Final, NamedTuple

from headwater.common.ids import TopicId
from headwater.protocol.primitives import uvarint
from headwater.protocol.send_parts import Part, part_bytes

SINGLE_FETCH_SINCE: Final = 11
_FLEXIBLE_SINCE: Final = 12
_IDS_SINCE: Final = 13

# Size, correlation id; tagged fields of the header; throttle time, no error, session id, one topic.
_HEAD: Final = Struct(">iiihii")
_COMPACT_HEAD: Final = Struct(">iibihib")
# One partition: index, no error, high watermark, last stable offset, log start offset, length of
# the list of aborted transactions, no preferred replica.
_PARTITION: Final = Struct(">iihqqqii")
_COMPACT_PARTITION: Final = Struct(">bihqqqbi")
_RECORDS: Final = Struct(">i")
_NO_REPLICA: Final = -1
_NULL: Final = -1
# Tagged fields of the partition, the topic and the response.
_NO_TAGS: Final = bytes(3)
_SIZE_BYTES: Final = 4


class SingleFetched(NamedTuple):
    """Fields of the partition. The topic is a name or, from version 13 on, an id."""

    session_id: int
    topic: str
    topic_id: TopicId
    partition: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    lists_aborted: bool


def write_single_fetched(
    version: int, correlation_id: int, fetched: SingleFetched, records: Part
) -> list[Part]:
    """Return the complete response frame in parts."""
    session_id, topic, topic_id, *numbers, lists_aborted = fetched
    size = part_bytes(records)
    if version < _FLEXIBLE_SINCE:
        name = topic.encode()
        aborted = 0 if lists_aborted else _NULL
        partition = _PARTITION.pack(1, numbers[0], 0, *numbers[1:], aborted, _NO_REPLICA)
        body = len(name).to_bytes(2, "big") + name + partition + _RECORDS.pack(size)
        frame_bytes = _HEAD.size - _SIZE_BYTES + len(body) + size
        return [_HEAD.pack(frame_bytes, correlation_id, 0, 0, session_id, 1) + body, records]
    if version < _IDS_SINCE:
        name = topic.encode()
        name = uvarint(len(name) + 1) + name
    else:
        name = topic_id
    # Compact counts and sizes are sent plus one; null is 0.
    aborted = 1 if lists_aborted else 0
    partition = _COMPACT_PARTITION.pack(2, numbers[0], 0, *numbers[1:], aborted, _NO_REPLICA)
    body = name + partition + uvarint(size + 1)
    frame_bytes = _COMPACT_HEAD.size - _SIZE_BYTES + len(body) + size + len(_NO_TAGS)
    head = _COMPACT_HEAD.pack(frame_bytes, correlation_id, 0, 0, 0, session_id, 2)
    return [head + body, records, _NO_TAGS]

"""The answer to a Fetch that tells of one partition, written without a message in between.

A consumer at the end of a log is answered once per batch, so this is paid nearly as often as a
Produce. Only the plain case is written here: no error, nothing diverging, no aborted transactions
(a list of none for whoever wants committed records, else no list), no preferred replica. All others
go by `codec`, which this is held to byte for byte.
"""

from struct import Struct
from typing import Final, NamedTuple

from headwater.common.ids import TopicId
from headwater.protocol.primitives import uvarint
from headwater.protocol.send_parts import Part, part_bytes

SINGLE_FETCH_SINCE: Final = 11
_FLEXIBLE_SINCE: Final = 12
_IDS_SINCE: Final = 13

# Size, which request; tags of the header; throttle time, no error, session, one topic.
_HEAD: Final = Struct(">iiihii")
_COMPACT_HEAD: Final = Struct(">iibihib")
# One partition, its number, no error, high watermark, last stable offset, log start, the length of
# the list of aborted transactions, no preferred replica.
_PARTITION: Final = Struct(">iihqqqii")
_COMPACT_PARTITION: Final = Struct(">bihqqqbi")
_RECORDS: Final = Struct(">i")
_NO_REPLICA: Final = -1
_NULL: Final = -1
# Of the partition, the topic and the answer.
_NO_TAGS: Final = bytes(3)
_SIZE_BYTES: Final = 4


class SingleFetched(NamedTuple):
    """What is told of the partition. The topic has a name or, from version 13 on, an id."""

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
    """The whole frame, in parts."""
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
    # Counts and sizes are sent one higher than they are, and null as nought.
    aborted = 1 if lists_aborted else 0
    partition = _COMPACT_PARTITION.pack(2, numbers[0], 0, *numbers[1:], aborted, _NO_REPLICA)
    body = name + partition + uvarint(size + 1)
    frame_bytes = _COMPACT_HEAD.size - _SIZE_BYTES + len(body) + size + len(_NO_TAGS)
    head = _COMPACT_HEAD.pack(frame_bytes, correlation_id, 0, 0, 0, session_id, 2)
    return [head + body, records, _NO_TAGS]

"""Produce of one batch to one partition, read and answered without a message in between.

Nearly every Produce is of this kind, and its cost is paid per request. So its few fields are taken
straight out of the frame, and the answer, when all went well, is put together from bytes.

What a reader would get wrong: `read` does not judge. It gives None for whatever is not plainly one
batch for one partition, be it two of them, a transaction or garbage; `translation` then reads the
same bytes and says what they are.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from headwater.model.failures import ProtocolError
from headwater.wire.primitives import read_uvarint, uvarint

# Before this version an answer has other fields, and not every codec may be used.
_SINCE: Final = 8
_FLEXIBLE_SINCE: Final = 9
_IDS_SINCE: Final = 13

_ID_BYTES: Final = 16
_LONGEST_NAME_BYTES: Final = 126

# No transactional id, acks, timeout, the number of topics.
_BEGINNING: Final = Struct(">hhiih")
_COMPACT_BEGINNING: Final = Struct(">BhiB")
# The number of partitions, the number of this one, the size of its records.
_PARTITION: Final = Struct(">iii")
_COMPACT_PARTITION: Final = Struct(">Bi")
_NO_TAGS: Final = bytes(3)
_new_tuple = tuple.__new__

# The size of the answer, and which request it is for.
_HEAD: Final = Struct(">ii")
# Number, no error, base offset, append time, log start.
_PRODUCED: Final = Struct(">ihqqq")
# The header's tags, and one topic; behind its name or id, one partition.
_COMPACT_TOPIC: Final = b"\0\2"
_COMPACT_ONE: Final = b"\2"
_ONE: Final = b"\0\0\0\1"
# No record errors, no message, tags of partition and topic, throttle time, tags.
_COMPACT_END: Final = b"\1\0\0\0" + bytes(4) + b"\0"
_END: Final = bytes(4) + b"\xff\xff" + bytes(4)

_new_tuple = tuple.__new__


class SingleProduce(NamedTuple):
    """What one batch for one partition is about. The records are a view of the frame."""

    acks: int
    # A name as it was sent, or from version 13 on an id.
    topic: bytes
    partition: int
    records: memoryview


def read_single(frame: memoryview, position: int, version: int) -> SingleProduce | None:
    """The request whose body begins at a position; None for any that is not of this kind."""
    try:
        if version >= _FLEXIBLE_SINCE:
            return _read_compact(frame, position, version)
        return _read(frame, position) if version >= _SINCE else None
    except (IndexError, struct_error, ProtocolError):
        return None


def write_single(
    version: int,
    correlation_id: int,
    produce: SingleProduce,
    *,
    base_offset: int,
    append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The whole frame that says that it was appended."""
    partition = produce.partition
    produced = _PRODUCED.pack(partition, 0, base_offset, append_time_ms, log_start_offset)
    topic = produce.topic
    if version >= _IDS_SINCE:
        body = _COMPACT_TOPIC + topic + _COMPACT_ONE + produced + _COMPACT_END
    elif version >= _FLEXIBLE_SINCE:
        name = uvarint(len(topic) + 1) + topic
        body = _COMPACT_TOPIC + name + _COMPACT_ONE + produced + _COMPACT_END
    else:
        name = len(topic).to_bytes(2, "big") + topic
        body = _ONE + name + _ONE + produced + _END
    return _HEAD.pack(4 + len(body), correlation_id) + body


def _read_compact(frame: memoryview, position: int, version: int) -> SingleProduce | None:
    transactional_id, acks, _, topics = _COMPACT_BEGINNING.unpack_from(frame, position)
    start = position + _COMPACT_BEGINNING.size
    if version >= _IDS_SINCE:
        end = start + _ID_BYTES
    else:
        length = frame[start] - 1
        if not 0 <= length <= _LONGEST_NAME_BYTES:
            return None
        start += 1
        end = start + length
    partitions, partition = _COMPACT_PARTITION.unpack_from(frame, end)
    # Counts are sent one higher than they are, so that nothing can be told from none.
    if transactional_id or topics != 2 or partitions != 2:
        return None
    size, begin = read_uvarint(frame, end + _COMPACT_PARTITION.size)
    finish = begin + size - 1
    if size < 2 or frame[finish:] != _NO_TAGS:
        return None
    fields = (acks, bytes(frame[start:end]), partition, frame[begin:finish])
    # Not by the class's own way, which costs three times as much, for every request.
    return _new_tuple(SingleProduce, fields)


def _read(frame: memoryview, position: int) -> SingleProduce | None:
    transactional_id, acks, _, topics, length = _BEGINNING.unpack_from(frame, position)
    start = position + _BEGINNING.size
    if transactional_id != -1 or topics != 1 or length < 0:
        return None
    end = start + length
    partitions, partition, size = _PARTITION.unpack_from(frame, end)
    begin = end + _PARTITION.size
    if partitions != 1 or size < 1 or begin + size != len(frame):
        return None
    return SingleProduce(acks, bytes(frame[start:end]), partition, frame[begin:])

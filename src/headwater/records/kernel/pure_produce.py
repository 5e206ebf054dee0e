"""Pure kernel: read a Produce request of one batch and write its response.

Note: reading does not validate. It returns None for everything that is not clearly one batch for
one partition: several batches, a transaction, another API or garbage.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final

from headwater.records.kernel.single_produce import SingleProduce

_PRODUCE: Final = 0
# Earlier versions have other response fields, and do not allow every codec.
_OLDEST: Final = 8
_FLEXIBLE_SINCE: Final = 9
_IDS_SINCE: Final = 13
_NEWEST: Final = 13

_ID_BYTES: Final = 16
_LONGEST_NAME_BYTES: Final = 126
_UVARINT_BYTES: Final = 5
_LARGEST_UVARINT: Final = 2**32 - 1

# API key, version, correlation id, length of the client id.
_HEADER: Final = Struct(">hhih")
# No transactional id, acks, timeout, number of topics, length of the name.
_BEGINNING: Final = Struct(">hhiih")
_COMPACT_BEGINNING: Final = Struct(">BhiB")
# Number of partitions, index of this one, size of its records.
_PARTITION: Final = Struct(">iii")
_COMPACT_PARTITION: Final = Struct(">Bi")
_NO_TAGS: Final = bytes(3)

# Size of the response and correlation id.
_HEAD: Final = Struct(">ii")
# Partition index, no error, base offset, append time, log start offset.
_PRODUCED: Final = Struct(">ihqqq")
# The header's tagged fields and one topic; after its name or id, one partition.
_COMPACT_TOPIC: Final = b"\0\2"
_COMPACT_ONE: Final = b"\2"
_ONE: Final = b"\0\0\0\1"
# No record errors, no message, tagged fields of partition and topic, throttle time, tagged fields.
_COMPACT_END: Final = b"\1\0\0\0" + bytes(4) + b"\0"
_END: Final = bytes(4) + b"\xff\xff" + bytes(4)


def read_single_produce(frame: memoryview) -> SingleProduce | None:
    """Parse a frame without its size field; None if it is not a single Produce."""
    try:
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
        if key != _PRODUCE or not _OLDEST <= version <= _NEWEST:
            return None
        # A null client id has length -1.
        position = _HEADER.size + max(length, 0)
        if version >= _FLEXIBLE_SINCE:
            # One byte: the number of tagged fields, which must be 0.
            found = None if frame[position] else _read_compact(frame, position + 1, version)
        else:
            found = _read(frame, position)
    except (IndexError, struct_error):
        return None
    return None if found is None else SingleProduce(version, correlation_id, *found)


def write_single_produce(
    produce: SingleProduce, base_offset: int, append_time_ms: int, log_start_offset: int
) -> bytes:
    """Return the complete response frame of a successful append."""
    topic = produce.topic
    produced = _PRODUCED.pack(produce.partition, 0, base_offset, append_time_ms, log_start_offset)
    if produce.version >= _FLEXIBLE_SINCE:
        name = topic if produce.version >= _IDS_SINCE else bytes((len(topic) + 1,)) + topic
        body = _COMPACT_TOPIC + name + _COMPACT_ONE + produced + _COMPACT_END
    else:
        name = len(topic).to_bytes(2, "big") + topic
        body = _ONE + name + _ONE + produced + _END
    return _HEAD.pack(4 + len(body), produce.correlation_id) + body


def _read_compact(
    frame: memoryview, position: int, version: int
) -> tuple[int, bytes, int, memoryview] | None:
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
    # Compact counts are sent plus one, so that 0 is null.
    if transactional_id or topics != 2 or partitions != 2:
        return None
    size, begin = _read_uvarint(frame, end + _COMPACT_PARTITION.size)
    finish = begin + size - 1
    if size < 2 or frame[finish:] != _NO_TAGS:
        return None
    return acks, bytes(frame[start:end]), partition, frame[begin:finish]


def _read(frame: memoryview, position: int) -> tuple[int, bytes, int, memoryview] | None:
    transactional_id, acks, _, topics, length = _BEGINNING.unpack_from(frame, position)
    start = position + _BEGINNING.size
    if transactional_id != -1 or topics != 1 or length < 0:
        return None
    end = start + length
    partitions, partition, size = _PARTITION.unpack_from(frame, end)
    begin = end + _PARTITION.size
    if partitions != 1 or size < 1 or begin + size != len(frame):
        return None
    return acks, bytes(frame[start:end]), partition, frame[begin:]


def _read_uvarint(frame: memoryview, position: int) -> tuple[int, int]:
    """Return a number and the position after it; 0 for one that is too large."""
    value = 0
    for index in range(_UVARINT_BYTES):
        byte = frame[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return (value if value <= _LARGEST_UVARINT else 0), position + index + 1
    return 0, position

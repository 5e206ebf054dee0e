"""Prebuilt requests, so that the client costs next to nothing.

Note: one Produce frame is sent repeatedly, with the same correlation id and the same records. To a
broker each one is a new batch, because it has no producer id.
"""

import os
import socket
import time
from struct import Struct
from typing import Final

from headwater.broker.inter_broker.request import read_answer
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import request_frame
from headwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record

TOPIC: Final = "bench"
VALUE_BYTES: Final = 100

# Versions that both Headwater and the bare broker support.
PRODUCE_VERSION: Final = 3
FETCH_VERSION: Final = 4

_SIZE: Final = Struct(">i")
_BASE_OFFSET: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_LAST_OFFSET_DELTA: Final = Struct(">i")
_ROOM_BYTES: Final = 4 * 1_048_576


def batch_of(record_count: int, value_bytes: int = VALUE_BYTES) -> bytes:
    """Build a batch of such records, with the current time."""
    now_ms = time.time_ns() // 1_000_000
    value = os.urandom(value_bytes)
    return build_batch([Record(value=value, timestamp=now_ms)] * record_count)


def produce_frame(
    record_count: int,
    version: int = PRODUCE_VERSION,
    *,
    topic: str = TOPIC,
    value_bytes: int = VALUE_BYTES,
    acks: int = 1,
) -> bytes:
    """Build a complete Produce request."""
    data = PartitionProduceData(records=memoryview(batch_of(record_count, value_bytes)))
    produced = TopicProduceData(name=topic, partition_data=(data,))
    return frame_of(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=(produced,)), version)


def fetch_frame(
    offset: int, max_bytes: int, *, topic: str = TOPIC, version: int = FETCH_VERSION
) -> bytes:
    """Build a complete Fetch request that waits up to a second for the first byte."""
    partition = FetchPartition(fetch_offset=offset, partition_max_bytes=max_bytes)
    return frame_of(
        FetchRequest(
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=(FetchTopic(topic=topic, partitions=(partition,)),),
        ),
        version,
    )


def connect(port: int) -> socket.socket:
    connected = socket.create_connection(("127.0.0.1", port))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def ask(port: int, request: Message, version: int) -> Message:
    """Send one request on its own connection, and return the response."""
    with connect(port) as connected:
        connected.sendall(frame_of(request, version))
        return read_answer(request, version, _receive_frame(connected, bytearray(_ROOM_BYTES)))


def produce_pipelined(port: int, frame: bytes, count: int, *, owed: int) -> None:
    """Send one frame `count` times, with at most `owed` in flight."""
    at_once = min(owed, max(1, 65_536 // len(frame)))
    burst = frame * at_once
    room = bytearray(65_536)
    with connect(port) as connected:
        connected.sendall(frame)
        # All responses have the length of the first.
        answer_bytes = len(_receive_frame(connected, room)) + _SIZE.size
        left, owed_bytes = count - 1, 0
        while left or owed_bytes:
            if left and owed_bytes <= (owed - at_once) * answer_bytes:
                now = min(left, at_once)
                connected.sendall(burst if now == at_once else frame * now)
                left -= now
                owed_bytes += now * answer_bytes
            else:
                received = connected.recv_into(room)
                assert received, "the broker closed the connection"
                owed_bytes -= received


def produce_one_at_a_time(port: int, frame: bytes, count: int) -> list[int]:
    """Send requests one at a time; return the nanoseconds that each took."""
    room = bytearray(65_536)
    took_ns: list[int] = []
    with connect(port) as connected:
        for _ in range(count):
            began_ns = time.perf_counter_ns()
            connected.send(frame)
            _receive_frame(connected, room)
            took_ns.append(time.perf_counter_ns() - began_ns)
    return took_ns


class RawReader:
    """Consumer that decodes no records: it fetches, finds the last whole batch, and continues."""

    def __init__(self, port: int, *, topic: str = TOPIC, max_bytes: int = 1_048_576) -> None:
        self._topic = topic
        self._max_bytes = max_bytes
        self._room = bytearray(max(_ROOM_BYTES, 2 * max_bytes))
        self._connected = connect(port)
        self.offset = 0

    def read(self) -> int:
        """Fetch once; return the bytes of whole batches."""
        frame = fetch_frame(self.offset, self._max_bytes, topic=self._topic)
        self._connected.sendall(frame)
        answer = _receive_frame(self._connected, self._room)
        # Correlation id, throttle time, one topic, its name, one partition, its index, error, two
        # offsets, no aborted transactions, and the size of the records.
        position = 4 + 4 + 4 + 2 + len(self._topic) + 4 + 4 + 2 + 8 + 8 + 4 + 4
        taken = 0
        while position + 61 <= len(answer):
            size = 12 + _LENGTH.unpack_from(answer, position + 8)[0]
            if position + size > len(answer):
                break
            base_offset = _BASE_OFFSET.unpack_from(answer, position)[0]
            self.offset = base_offset + _LAST_OFFSET_DELTA.unpack_from(answer, position + 23)[0] + 1
            position += size
            taken += size
        return taken

    def close(self) -> None:
        self._connected.close()


def _receive_frame(connected: socket.socket, room: bytearray) -> memoryview:
    """Receive the next response without its size; nothing else may be in flight."""
    view = memoryview(room)
    have = 0
    while have < _SIZE.size:
        have += _received(connected, view[have:])
    whole = _SIZE.size + _SIZE.unpack_from(room)[0]
    while have < whole:
        have += _received(connected, view[have:whole])
    return view[_SIZE.size : whole]


def _received(connected: socket.socket, room: memoryview) -> int:
    count = connected.recv_into(room)
    if not count:
        raise ConnectionError("the broker closed the connection")
    return count


def frame_of(request: Message, version: int) -> bytes:
    """Build a complete request frame."""
    api: ApiKey = request.api
    parts = request_frame(APIS[api], version, 1, "bench", write(request, version))
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))

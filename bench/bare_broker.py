"""Minimal broker for a Kafka client: `python -m bench.bare_broker FILE`.

The upper limit for a broker in Python: received records are written to a file with one `pwrite`,
fetched records are sent with one `sendfile`. It has one topic with one partition and one version of
each API, validates nothing, and a client that does not read its responses blocks all others.
Offsets are stamped, because a consumer would not accept the records otherwise.
"""

import os
import select
import socket
import sys
from pathlib import Path
from struct import Struct
from typing import Final

from bench.raw_requests import TOPIC
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import read_request_header, response_frame
from headwater.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headwater.protocol.older_versions import Message
from headwater.records import kernel

# Supported versions: they have few fields, all at fixed positions.
_SPOKEN: Final = {
    ApiKey.PRODUCE: (0, 3),
    ApiKey.FETCH: (4, 4),
    ApiKey.LIST_OFFSETS: (1, 1),
    ApiKey.METADATA: (1, 4),
    ApiKey.API_VERSIONS: (0, 3),
}

_SIZE: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
_HEADER: Final = Struct(">hhih")
_NAME: Final = Struct(">h").pack(len(TOPIC)) + TOPIC.encode()

# A Produce request up to the records, after the client id: no transactional id, acks, timeout, one
# topic of one partition.
_BEFORE_RECORDS: Final = 2 + 2 + 4 + 4 + len(_NAME) + 4 + 4 + 4
_PRODUCED: Final = Struct(f">iii{len(_NAME)}siihqqi")

# A Fetch request from its maximum wait on; the offset and the limit of its only partition.
_FETCH: Final = Struct(f">iiiibi{len(_NAME)}siiqi")
_FETCHED: Final = Struct(f">iiii{len(_NAME)}siihqqii")

_LAST_OFFSET_DELTA: Final = Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23
_RECEIVE_BYTES: Final = 65_536
_BUFFER_BYTES: Final = 16 * 1_048_576
_SCANNED_BYTES: Final = 64 * 1_048_576


class _Connection:
    def __init__(self, accepted: socket.socket) -> None:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = accepted
        self.view = memoryview(bytearray(_BUFFER_BYTES))
        self.start = 0
        self.end = 0
        self.frame_bytes = 0


class _BareBroker:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        self._size = os.fstat(self._file).st_size
        self._positions, self._end_offset = _positions_in(self._file, self._size)
        # Empty fetches, answered by the next Produce.
        self._waiting: list[tuple[_Connection, int, int]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def serve(self) -> None:
        connections: dict[int, _Connection] = {}
        poll = select.epoll()
        poll.register(self._listening, select.EPOLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._listening.fileno():
                    accepted = self._listening.accept()[0]
                    connections[accepted.fileno()] = _Connection(accepted)
                    poll.register(accepted, select.EPOLLIN)
                elif not self._receive(connections[descriptor]):
                    poll.unregister(descriptor)
                    connections.pop(descriptor).socket.close()

    def _receive(self, connection: _Connection) -> bool:
        """Receive once and handle all complete frames; False after a disconnect."""
        start, end = connection.start, connection.end
        # Not beyond a large frame: the bytes after it would have to be moved to the front.
        room_end = max(start + connection.frame_bytes, end + _RECEIVE_BYTES)
        try:
            count = connection.socket.recv_into(connection.view[end:room_end])
        except OSError:
            return False
        if not count:
            return False
        end += count
        view = connection.view
        connection.frame_bytes = 0
        while end - start >= _SIZE.size:
            frame_bytes = _SIZE.size + _SIZE.unpack_from(view, start)[0]
            if end - start < frame_bytes:
                connection.frame_bytes = frame_bytes
                break
            self._answer(connection, view[start + _SIZE.size : start + frame_bytes])
            start += frame_bytes
        if start == end:
            start = end = 0
        elif start:
            view[: end - start] = view[start:end]
            start, end = 0, end - start
        connection.start, connection.end = start, end
        return True

    def _answer(self, connection: _Connection, frame: memoryview) -> None:
        key, _, correlation_id, client_id_bytes = _HEADER.unpack_from(frame)
        body_position = _HEADER.size + max(0, client_id_bytes)
        if key == ApiKey.PRODUCE:
            records = frame[body_position + _BEFORE_RECORDS :]
            connection.socket.send(self._append(correlation_id, records))
            self._wake()
        elif key == ApiKey.FETCH:
            fields = _FETCH.unpack_from(frame, body_position)
            self._fetch(connection, correlation_id, fields[-2], fields[-1])
        else:
            connection.socket.sendall(self._other(frame))

    def _append(self, correlation_id: int, records: memoryview) -> bytes:
        base_offset = self._end_offset
        _OFFSET.pack_into(records, 0, base_offset)
        os.pwrite(self._file, records, self._size)
        self._positions[base_offset] = self._size
        self._size += len(records)
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(records, _LAST_OFFSET_DELTA_POSITION)
        self._end_offset = base_offset + delta + 1
        size = _PRODUCED.size - _SIZE.size
        return _PRODUCED.pack(size, correlation_id, 1, _NAME, 1, 0, 0, base_offset, -1, 0)

    def _fetch(
        self, connection: _Connection, correlation_id: int, offset: int, max_bytes: int
    ) -> None:
        position = self._positions.get(offset)
        if position is None:
            self._waiting.append((connection, correlation_id, offset))
            return
        length = min(max_bytes, self._size - position)
        size = _FETCHED.size - _SIZE.size + length
        end_offset = self._end_offset
        head = (size, correlation_id, 0, 1, _NAME, 1, 0, 0, end_offset, end_offset, -1, length)
        connection.socket.send(_FETCHED.pack(*head), socket.MSG_MORE)
        while length:
            sent = os.sendfile(connection.socket.fileno(), self._file, position, length)
            position += sent
            length -= sent

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection, correlation_id, offset in waiting:
            self._fetch(connection, correlation_id, offset, _BUFFER_BYTES)

    def _other(self, frame: memoryview) -> bytes:
        """Answer the requests that a client sends once at the start."""
        header = read_request_header(frame)
        body = write(self._other_response(header.api.key), header.version)
        parts = response_frame(header.api, header.version, header.correlation_id, body)
        return b"".join(part for part in parts if isinstance(part, bytes | bytearray))

    def _other_response(self, key: ApiKey) -> Message:
        if key is ApiKey.API_VERSIONS:
            spoken = [
                ApiVersion(api_key=key, min_version=oldest, max_version=newest)
                for key, (oldest, newest) in _SPOKEN.items()
            ]
            return ApiVersionsResponse(api_keys=tuple(spoken))
        if key is ApiKey.METADATA:
            partition = MetadataResponsePartition(leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
            return MetadataResponse(
                brokers=(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port),),
                controller_id=1,
                topics=(MetadataResponseTopic(name=TOPIC, partitions=(partition,)),),
            )
        assert key is ApiKey.LIST_OFFSETS, f"{APIS[key].name} is not announced"
        found = ListOffsetsPartitionResponse(offset=self._end_offset)
        return ListOffsetsResponse(
            topics=(ListOffsetsTopicResponse(name=TOPIC, partitions=(found,)),)
        )


def _positions_in(descriptor: int, size: int) -> tuple[dict[int, int], int]:
    """Return the position of each batch of a segment by base offset, and the log end offset."""
    positions: dict[int, int] = {}
    position = end_offset = 0
    while position < size:
        headers, _ = kernel.scan(os.pread(descriptor, _SCANNED_BYTES, position), 0, _SCANNED_BYTES)
        if not headers:
            break
        for header in headers:
            positions[header.base_offset] = position
            position += header.size_bytes
            end_offset = header.next_offset
    return positions, end_offset


def main(path: str) -> None:
    bare = _BareBroker(Path(path))
    print(f"bare ready 127.0.0.1:{bare.port}", flush=True)
    bare.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])

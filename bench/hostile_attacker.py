"""Attack a broker until killed: `python -m bench.hostile_attacker PORT ATTACK`.

Frames are built before the first byte is sent and then replayed. A connection that the broker
closes is opened again, so an attack that is refused goes on as a flood of connections. Prints one
line when the attack has begun.
"""

import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.hostile_requests import LARGE_REQUESTS
from bench.raw_requests import frame_of
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.api_versions import ApiVersionsRequest
from headwater.protocol.messages.metadata import MetadataRequest
from headwater.protocol.primitives import uvarint

_ROOM_BYTES: Final = 1_048_576
_PIPELINED: Final = 3_000
# So that the honest client, which shares the attacker's core, can run.
_NICENESS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Frames to send, and the number of connections."""

    content: bytes
    connections: int = 1
    # Close each connection when all is sent, without waiting for responses.
    hangs_up: bool = False


def _large(name: str, count: int, connections: int = 1) -> Attack:
    request, version = LARGE_REQUESTS[name](count)
    return Attack(content=frame_of(request, version), connections=connections)


def _small() -> bytes:
    topics = MetadataRequest(topics=(), allow_auto_topic_creation=False)
    return frame_of(topics, 9) * _PIPELINED


def _api_versions() -> bytes:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return frame_of(request, 3)


def _tagged_fields() -> bytes:
    """A header with half a million tagged fields of two bytes each."""
    count = 524_288
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, 0)
    frame = head + uvarint(count) + b"\x64\0" * count
    return struct.pack(">i", len(frame)) + frame


def attack_of(name: str) -> Attack:
    """Build one of `ATTACKS`; a name with a count is a large request with that many elements."""
    kind, _, rest = name.partition(", ")
    match kind:
        case "pipelined small requests":
            return Attack(content=_small(), connections=int(rest.split()[0]))
        case "ApiVersions flood":
            return Attack(content=_api_versions() * _PIPELINED, connections=int(rest.split()[0]))
        case "connection flood":
            return Attack(content=_api_versions(), connections=int(rest.split()[0]), hangs_up=True)
        case "tagged fields":
            return Attack(content=_tagged_fields(), connections=int(rest.split()[0]))
        case "empty frames":
            return Attack(content=bytes(4 * _PIPELINED), connections=int(rest.split()[0]))
        case _:
            count, connections = rest.replace(",", "").split(" on ")
            return _large(kind, int(count), int(connections))


ATTACKS: Final = (
    # As they were found.
    "DescribeGroups, 140,000 on 1",
    "Metadata, 1,000,000 on 1",
    "pipelined small requests, 1 connection",
    "pipelined small requests, 20 connections",
    # The allowed maximum, if that is less.
    "DescribeGroups, 10,000 on 1",
    "DescribeGroups, 10,000 on 20",
    "Metadata, 50,000 on 1",
    "Metadata, 50,000 on 20",
    # Others that are expensive per byte.
    "FindCoordinator, 10,000 on 4",
    "DescribeConfigs of a topic, 10,000 on 4",
    "DescribeConfigs of a broker, 10,000 on 4",
    "OffsetFetch of many partitions, 50,000 on 4",
    "OffsetFetch of many groups, 50,000 on 4",
    "ListOffsets of many topics, 50,000 on 4",
    "OffsetForLeaderEpoch, 50,000 on 4",
    "DeleteRecords, 50,000 on 4",
    "CreateTopics, 10,000 on 4",
    "IncrementalAlterConfigs, 10,000 on 4",
    "DeleteGroups, 10,000 on 4",
    "DescribeTransactions, 10,000 on 4",
    "OffsetCommit, 10,000 on 4",
    "Fetch, 10,000 on 4",
    "Produce, 5,000 on 4",
    "ApiVersions flood, 20 connections",
    "connection flood, 20 connections",
    "connection flood, 500 connections",
    "tagged fields, 4 connections",
    "empty frames, 4 connections",
)


class _Attacker:
    """One connection of an attack: sends its content repeatedly, and drops the responses."""

    def __init__(self, port: int, attack: Attack) -> None:
        self._port = port
        self._attack = attack
        self._left = memoryview(attack.content)
        self.socket = self._connect()

    def _connect(self) -> socket.socket:
        made = socket.socket()
        made.setblocking(False)
        made.connect_ex(("127.0.0.1", self._port))
        self._left = memoryview(self._attack.content)
        return made

    def proceed(self, room: bytearray, *, may_read: bool, may_write: bool) -> bool:
        """Send and receive without blocking; return False if a new connection was opened."""
        try:
            if may_read and not self.socket.recv_into(room):
                raise ConnectionResetError
            if may_write:
                self._left = self._left[self.socket.send(self._left) :]
                if not self._left:
                    self._left = memoryview(self._attack.content)
                    if self._attack.hangs_up:
                        raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            self.socket.close()
            self.socket = self._connect()
            return False
        return True


def run(port: int, attack: Attack) -> Iterator[None]:
    """Attack; yields after every round of sending and receiving."""
    selector = selectors.DefaultSelector()
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    for _ in range(attack.connections):
        each = _Attacker(port, attack)
        selector.register(each.socket, both, each)
    room = bytearray(_ROOM_BYTES)
    while True:
        for key, events in selector.select():
            each = key.data
            may_read = bool(events & selectors.EVENT_READ)
            may_write = bool(events & selectors.EVENT_WRITE)
            if not each.proceed(room, may_read=may_read, may_write=may_write):
                selector.unregister(key.fileobj)
                selector.register(each.socket, both, each)
        yield


def main() -> None:
    attack = attack_of(sys.argv[2])
    os.nice(_NICENESS)
    began = time.perf_counter()
    for _ in run(int(sys.argv[1]), attack):
        if began:
            print("attacking", flush=True)
            began = 0.0


if __name__ == "__main__":
    main()

"""Connections on a scripted network, with a service that the test plays."""

import struct
from collections.abc import Callable

from headwater.network.connection import Connection, ConnectionContext
from headwater.network.limits.closed_connection_log import ClosedConnectionLog
from headwater.network.limits.fair_queue import FairQueue
from headwater.network.limits.idle_expiry import CoarseClock
from headwater.network.limits.inflight_bytes import STEPWISE_BYTES_MAX, ByteLimit, InflightBytes
from headwater.network.network_settings import NetworkSettings
from headwater.network.request_service import ClientAddress, ResponseSlot, ServedConnection
from headwater.network.response_batching import ResponseBatching
from tests.simulation.fakes.scripted_network import ScriptedTransportLayer, SteppedLoop


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


class Range:
    """A range of a file that consists of one byte value, and counts its releases."""

    def __init__(self, byte: int, length: int) -> None:
        self._byte = byte
        self.position = 0
        self.length = length
        self.release_count = 0

    def fileno(self) -> int:
        return self._byte

    def release(self) -> None:
        self.release_count += 1


def echo(slot: ResponseSlot, frame: memoryview) -> None:
    slot.respond([framed(bytes(frame))])


def keep_waiting(slot: ResponseSlot, frame: memoryview) -> None:
    """The test answers through `ConnectionLab.slots`."""


class ConnectionLab:
    """Records every frame and slot, then calls `behave`."""

    # Whether many connections wait for every turn of the loop.
    is_crowded = False

    def __init__(
        self,
        settings: NetworkSettings | None = None,
        behave: Callable[[ResponseSlot, memoryview], None] = echo,
    ) -> None:
        settings = settings or NetworkSettings()
        self.behave = behave
        # Stands still unless the service of a test takes time.
        self.now_ns = 0
        self.loop = SteppedLoop()
        self.clock = CoarseClock(0)
        self.inflight_bytes = InflightBytes(
            overlapping_requests=ByteLimit(self.loop, settings.queued_max_requests),
            buffer_bytes=ByteLimit(self.loop, settings.queued_max_request_bytes),
            stepwise_bytes=ByteLimit(self.loop, STEPWISE_BYTES_MAX),
        )
        self.closed_connection_log = ClosedConnectionLog()
        self.to_sweep: dict[Connection, None] = {}
        self.fair_queue = FairQueue(self.loop, lambda: self.now_ns)
        self.on_closed: Callable[[Connection], None] = lambda _: None
        self._surroundings = ConnectionContext(
            loop=self.loop,
            settings=settings,
            service=self,
            inflight_bytes=self.inflight_bytes,
            clock=self.clock,
            to_sweep=self.to_sweep,
            on_closed=lambda connection: self.on_closed(connection),
            is_crowded=lambda: self.is_crowded,
            response_batching=ResponseBatching(self.loop),
            fair_queue=self.fair_queue,
            closed_connection_log=self.closed_connection_log,
            close=lambda channel, _: channel.close(),
            close_gracefully=lambda channel, _: channel.close(),
        )
        self.frames: list[bytes] = []
        self.slots: list[ResponseSlot] = []
        self.failures: list[Exception] = []
        self.closed_ones: list[ServedConnection] = []
        self._next_fd = 3

    def connect(self, listener_tag_ns: int = 0) -> tuple[Connection, ScriptedTransportLayer]:
        channel = ScriptedTransportLayer(self._next_fd)
        self._next_fd += 1
        self.loop.watch(channel)
        address = ClientAddress(
            listener="PLAINTEXT", peer_host="192.0.2.1", peer_port=self._next_fd
        )
        return Connection(channel, address, self._surroundings, listener_tag_ns), channel

    def sweep(self, now_ms: int) -> None:
        for connection in list(self.to_sweep):
            connection.sweep(now_ms)
        self.clock.now_ms = now_ms

    # The service.

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.slots.append(slot)
        self.behave(slot, frame)

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        assert not connection.is_closed
        self.failures.append(error)

    def closed(self, connection: ServedConnection) -> None:
        self.closed_ones.append(connection)

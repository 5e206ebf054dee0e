"""One accepted connection: receives requests, sends responses in order.

Note: nothing here is re-entrant. A response only records what is to be done; serving and sending
happen in `_serve_and_send`, which only the loop calls. All responses of one iteration of the loop
are sent together, and where many connections are ready in that iteration, all of them are served
before any response is sent. `headwater.network.request_service` says how long a frame is valid.

`fair_queue` decides how much of the loop's time a connection gets: each callback of the loop asks
it first, and is charged for the time it took.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from headwater.common.exceptions import ConnectionLost, ProtocolError
from headwater.common.principal import ANONYMOUS, Requester
from headwater.network.event_loop import Loop
from headwater.network.limits.closed_connection_log import ClosedConnectionLog
from headwater.network.limits.fair_queue import SHARE_NS, FairQueue
from headwater.network.limits.idle_expiry import CoarseClock
from headwater.network.limits.inflight_bytes import STEPWISE_SMALL_BYTES, InflightBytes
from headwater.network.network_settings import NetworkSettings
from headwater.network.receive_buffer import BUSY_BYTES, SMALL_BYTES, ReceiveBuffer
from headwater.network.request_service import ClientAddress, ResponseSlot, Service
from headwater.network.response_batching import ResponseBatching
from headwater.network.send_queue import SendQueue, release, size_of
from headwater.network.transport_layer import TransportLayer

# Limits of one connection per iteration of the loop. A consumer fetches a mebibyte per partition,
# which should be sent in one iteration.
_SENT_BYTES_PER_TURN = 1_114_112
_FRAMES_PER_TURN = 64
_RECEIVES_PER_TURN = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionContext:
    """What all connections of a server share."""

    loop: Loop
    settings: NetworkSettings
    service: Service
    inflight_bytes: InflightBytes
    clock: CoarseClock
    # Connections to visit in the next sweep: they are muted, or their buffers have grown.
    to_sweep: "dict[Connection, None]"
    # Called once for each closed connection, before the service is notified.
    on_closed: "Callable[[Connection], None]"
    # Whether many connections are ready in this iteration; then their responses are sent together.
    is_crowded: Callable[[], bool]
    response_batching: ResponseBatching
    fair_queue: FairQueue
    closed_connection_log: ClosedConnectionLog
    # Both take over the channel of a closed connection: one closes it, the other waits for the peer
    # to do so. Until it is closed it counts as connected.
    close: Callable[[TransportLayer, ClientAddress], None]
    close_gracefully: Callable[[TransportLayer, ClientAddress], None]


class Connection:
    """One accepted connection. Only for the loop's thread."""

    __slots__ = (
        "_awaited_stepwise_bytes",
        "_blocked_bytes",
        "_buffer",
        "_channel",
        "_clock",
        "_close_channel",
        "_close_gracefully",
        "_closed_connection_log",
        "_fair",
        "_fd",
        "_has_ended",
        "_has_more",
        "_held_by",
        "_inflight_bytes",
        "_is_crowded",
        "_is_draining",
        "_is_queued",
        "_is_reading",
        "_is_scheduled",
        "_is_serving",
        "_is_writing",
        "_keeps_frame",
        "_loop",
        "_on_closed",
        "_queue",
        "_requests_limit",
        "_reserved_bytes",
        "_response_batching",
        "_service",
        "_slots",
        "_steps",
        "_stepwise_bytes",
        "_to_sweep",
        "_unsent_limit_bytes",
        "_until_ns",
        "_wants_to_read",
        "active_ms",
        "address",
        "first_tag_ns",
        "is_closed",
        "muted_until_ms",
        "requester",
        "since_ms",
        "tag_ns",
    )

    def __init__(
        self,
        channel: TransportLayer,
        address: ClientAddress,
        context: ConnectionContext,
        listener_tag_ns: int = 0,
    ) -> None:
        settings = context.settings
        self.address = address
        self.requester = Requester(ANONYMOUS, address.peer_host)
        self.active_ms = self.since_ms = context.clock.now_ms
        self.muted_until_ms: int | None = None
        self.is_closed = False
        self._channel = channel
        self._fd = channel.fileno()
        self._loop = context.loop
        self._service = context.service
        self._inflight_bytes = context.inflight_bytes
        self._clock = context.clock
        self._to_sweep = context.to_sweep
        self._on_closed = context.on_closed
        self._is_crowded = context.is_crowded
        self._response_batching = context.response_batching
        self._fair = context.fair_queue
        self._closed_connection_log = context.closed_connection_log
        self._close_channel = context.close
        self._close_gracefully = context.close_gracefully
        self._requests_limit = settings.headwater_connection_requests_max
        self._unsent_limit_bytes = settings.headwater_connection_unsent_bytes_max
        self._buffer = ReceiveBuffer(settings.socket_request_max_bytes)
        self._queue = SendQueue()
        self._slots: deque[ResponseSlot] = deque()
        self._held_by: ResponseSlot | None = None
        self._steps: Iterator[None] | None = None
        # Whether the steps of the held request may still read its frame.
        self._keeps_frame = False
        # Size of the request that is answered in steps: still to be reserved, and reserved.
        self._awaited_stepwise_bytes = 0
        self._stepwise_bytes = 0
        # In the queue's virtual time: at the start, and now. Then when this turn ends.
        self.first_tag_ns = self.tag_ns = context.fair_queue.first_tag_ns(listener_tag_ns)
        self._until_ns = 0
        self._wants_to_read = False
        self._is_queued = False
        # Whether this turn ended with work left.
        self._has_more = False
        self._blocked_bytes = 0
        self._reserved_bytes = 0
        self._has_ended = False
        self._is_draining = False
        self._is_scheduled = False
        self._is_serving = False
        self._is_writing = False
        self._is_reading = True
        self._loop.add_reader(self._fd, self._on_readable)

    @property
    def unanswered_count(self) -> int:
        return len(self._slots)

    @property
    def unsent_bytes(self) -> int:
        """Unsent bytes of responses, including responses that wait for an earlier one."""
        return self._queue.size_bytes + self._blocked_bytes

    @property
    def buffer_bytes(self) -> int:
        """The size of the receive buffer."""
        return self._buffer.capacity_bytes

    @property
    def is_idle(self) -> bool:
        """Whether there are no unanswered requests."""
        return not self._slots

    def mute(self, until_ms: int) -> None:
        """Serve and read nothing until `sweep` or `unmute` is called after that time.

        Responses are still sent.
        """
        if not self.is_closed:
            self.muted_until_ms = max(until_ms, self.muted_until_ms or until_ms)
            self._to_sweep[self] = None

    def unmute(self, now_ms: int) -> None:
        """Serve again, if the time has passed."""
        if self.muted_until_ms is not None and now_ms >= self.muted_until_ms:
            self.muted_until_ms = None
            self._proceed_soon()

    def set_service(self, service: Service, *, frame_limit_bytes: int) -> None:
        """Let another service serve this connection, with this limit of the frame size."""
        self._service = service
        self._buffer.limit_frames(frame_limit_bytes)

    def sweep(self, now_ms: int) -> None:
        """Unmute when it is time, and release unused memory."""
        self.unmute(now_ms)
        # A connection that was active since the last sweep will need its buffer again.
        if self.active_ms < self._clock.now_ms:
            self._trim()
        if self.muted_until_ms is None and self._buffer.capacity_bytes <= SMALL_BYTES:
            self._to_sweep.pop(self, None)

    def drain(self) -> None:
        """Accept no further requests; close when all responses are sent."""
        self._is_draining = True
        self._proceed_soon()

    def close(self) -> None:
        """Close the connection now. Idempotent."""
        self._end(self._close_channel)

    def _end(self, part: Callable[[TransportLayer, ClientAddress], None]) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        # Before the descriptor is closed: its number may be reused by another connection at once.
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        part(self._channel, self.address)
        self._end_steps()
        self._inflight_bytes.stepwise_bytes.cancel_wait(self._proceed)
        slots, self._slots = self._slots, deque()
        if len(slots) > 1:
            self._inflight_bytes.overlapping_requests.release(len(slots) - 1)
        self._inflight_bytes.overlapping_requests.cancel_wait(self._proceed)
        self._inflight_bytes.buffer_bytes.release(self._reserved_bytes)
        self._inflight_bytes.buffer_bytes.cancel_wait(self._proceed)
        self._reserved_bytes = 0
        self._to_sweep.pop(self, None)
        try:
            self._queue.drop()
            for slot in slots:
                release(slot.parts or ())
        finally:
            self._on_closed(self)
            self._service.closed(self)

    # Callbacks of slots.

    def on_response(self, slot: ResponseSlot) -> None:
        """The slot has a response."""
        parts = slot.parts
        assert parts is not None
        if self.is_closed:
            release(parts)
            return
        if slot is self._held_by:
            self._held_by = None
            self._keeps_frame = False
        slots = self._slots
        if slot is slots[0]:
            self._queue.put(parts)
            slots.popleft()
            if slots:
                self._unblock()
        else:
            self._blocked_bytes += sum(map(size_of, parts))
        self._proceed_soon()

    def on_hold(self, slot: ResponseSlot) -> None:
        """Serve no other request until the slot has a response."""
        if slot.parts is None:
            self._held_by = slot

    def on_steps(self, slot: ResponseSlot, steps: Iterator[None], size_bytes: int) -> None:
        """The slot's response needs these steps, after the current ones if there are any."""
        assert self._steps is None or slot is self._held_by, "one request at a time has steps"
        if not self.is_closed:
            self.on_hold(slot)
            self._keeps_frame = slot.parts is None
            self._steps = steps
            if size_bytes > STEPWISE_SMALL_BYTES:
                self._awaited_stepwise_bytes = size_bytes
            self._proceed_soon()

    def _unblock(self) -> None:
        """Queue the responses that only waited for the one before them."""
        slots = self._slots
        answered = 1
        while slots and (parts := slots[0].parts) is not None:
            self._blocked_bytes -= sum(map(size_of, parts))
            self._queue.put(parts)
            slots.popleft()
            answered += 1
        # The first request of each connection is not counted, and the last one here was that one.
        self._inflight_bytes.overlapping_requests.release(answered if slots else answered - 1)

    # Callbacks of the loop.

    def _on_readable(self) -> None:
        if self._is_queued or self._is_scheduled or self.is_closed:
            # Earlier requests are served first; the loop will call again.
            return
        if self._fair.admits(self):
            self._run_step(self._read)
        else:
            self._is_queued = self._wants_to_read = True

    def _proceed(self) -> None:
        self._is_scheduled = False
        if self._is_queued:
            return
        if self._fair.admits(self):
            self._run_step(self._serve_and_send)
        else:
            self._is_queued = True

    def take_turn(self) -> None:
        """Called by the fair queue."""
        self._is_queued = False
        wants_to_read, self._wants_to_read = self._wants_to_read, False
        if not self.is_closed:
            self._run_step(self._read_or_send if wants_to_read else self._serve_and_send)

    def _run_step(self, step: Callable[[], object]) -> None:
        """Run one step; an error closes this connection and no other."""
        fair = self._fair
        began_ns = fair.now_ns()
        self._until_ns = began_ns + SHARE_NS
        try:
            step()
        except ConnectionLost as lost:
            _log.debug("Connection lost: client=%s reason=%s", self.address, lost)
            self.close()
        except ProtocolError as error:
            self._closed_connection_log.record(self.address, error)
            # Earlier responses are still sent, as far as possible at once.
            with suppress(ConnectionLost):
                self._send(_SENT_BYTES_PER_TURN)
            self.close()
        except Exception as error:  # noqa: BLE001, it is reported, and the loop continues
            self._service.failed(self, error)
            self.close()
        fair.charge(self, fair.now_ns() - began_ns)
        if self._has_more:
            # Only now, when the cost of this turn is known.
            self._has_more = False
            if not (self._is_scheduled or self._is_queued or self.is_closed):
                self._is_queued = True
                fair.wait(self)

    def _read_or_send(self) -> None:
        """Read; if no frame is complete, send what was answered in the meantime.

        Note: a queued connection is not scheduled again when it gets a response. It may have been
        queued without need: the loop's call of `_on_readable` may come after a turn of the fair
        queue has read the bytes.
        """
        if not self._read():
            self._serve_and_send()

    def _read(self) -> bool:
        """Receive and serve; return False if nothing was served."""
        if not self._may_receive():
            # Removed only now: most pauses end before the peer sends more.
            self._is_reading = False
            self._loop.remove_reader(self._fd)
            return False
        if self._receive():
            if self._buffer.capacity_bytes <= SMALL_BYTES and self._is_crowded():
                # Sending wakes up the client, which falls asleep again before the next response; if
                # responses follow each other, clients are still awake. Not for large buffers: their
                # responses share a call already, and others would wait too long.
                self._serve(_FRAMES_PER_TURN)
                if not (self._is_scheduled or self._is_queued or self.is_closed):
                    self._is_scheduled = True
                    self._response_batching.add(self._proceed)
            else:
                self._serve_and_send()
            return True
        return False

    def _receive(self) -> bool:
        """Receive what is available; False if it surely does not complete a frame.

        Repeatedly for a large frame: while one piece was copied the next has arrived, and another
        call is cheaper than an iteration of the loop.
        """
        for _ in range(_RECEIVES_PER_TURN):
            count = self._channel.receive_into(self._buffer.get_buffer())
            if count is None:
                return False
            self.active_ms = self._clock.now_ms
            if not count:
                self._has_ended = True
                return True
            if not self._buffer.buffer_updated(count):
                return True
        return False

    def _proceed_soon(self) -> None:
        if not (self._is_scheduled or self._is_queued or self._is_serving or self.is_closed):
            self._is_scheduled = True
            self._loop.call_soon(self._proceed)

    def _serve_and_send(self) -> None:
        """Serve requests and send responses, until there is no more of either."""
        served_left = _FRAMES_PER_TURN
        sent_left_bytes = _SENT_BYTES_PER_TURN
        is_over = False
        while not self.is_closed:
            # Send before serving, because sent responses make room for further requests.
            if sent_left_bytes > 0:
                sent_left_bytes -= self._send(sent_left_bytes)
            if self._steps is not None:
                if not self._may_take_steps():
                    break
                if not self._take_steps():
                    self._has_more = True
                    return
                continue
            if self._has_nothing_to_do():
                return
            if is_over:
                self._has_more = True
                return
            served = self._serve(served_left)
            if not served:
                break
            served_left -= served
            is_over = (
                served_left <= 0 or sent_left_bytes <= 0 or self._fair.now_ns() >= self._until_ns
            )
        if not self.is_closed:
            self._update_watches()

    def _take_steps(self) -> bool:
        """Run steps of a request; return whether the last one is done."""
        steps, now_ns = self._steps, self._fair.now_ns
        assert steps is not None
        self._is_serving = True
        try:
            for _ in steps:
                if self.is_closed:
                    break
                if now_ns() >= self._until_ns:
                    return False
        finally:
            self._is_serving = False
        if self._steps is steps:
            self._end_steps()
        return True

    def _end_steps(self) -> None:
        self._steps = None
        self._awaited_stepwise_bytes = 0
        if self._stepwise_bytes:
            self._inflight_bytes.stepwise_bytes.release(self._stepwise_bytes)
            self._stepwise_bytes = 0

    def _has_nothing_to_do(self) -> bool:
        """Whether there is nothing to serve, send or update, as after most requests."""
        return (
            self._buffer.is_empty
            and not self._queue.size_bytes
            and self._is_reading
            and not (self._is_writing or self._has_ended or self._is_draining)
            and self._buffer.capacity_bytes <= SMALL_BYTES
        )

    def _serve(self, limit: int) -> int:
        """Serve as many frames as are there and allowed; return their number."""
        served = 0
        now_ns, until_ns = self._fair.now_ns, self._until_ns
        self._is_serving = True
        try:
            while served < limit and self._may_serve():
                frame = self._buffer.next_frame()
                if frame is None:
                    break
                served += 1
                slot = ResponseSlot(self)
                if self._slots:
                    self._inflight_bytes.overlapping_requests.acquire(1)
                self._slots.append(slot)
                with frame:
                    self._service.serve(slot, frame)
                if now_ns() >= until_ns:
                    break
        finally:
            self._is_serving = False
        return served

    def _send(self, limit_bytes: int) -> int:
        if not self._queue.size_bytes:
            return 0
        sent = self._queue.send(self._channel, limit_bytes)
        if sent:
            self.active_ms = self._clock.now_ms
        return sent

    def _update_watches(self) -> None:
        """Update what the loop watches, now that nothing more can be done."""
        must_write = self._queue.size_bytes > 0
        if must_write and not self._is_writing:
            self._loop.add_writer(self._fd, self._proceed)
        elif self._is_writing and not must_write:
            self._loop.remove_writer(self._fd)
        self._is_writing = must_write
        if (self._has_ended or self._is_draining) and not self._slots and not must_write:
            # Bytes left in the buffer at the end of the stream are an incomplete frame: nothing is
            # received before everything is served.
            self._end(self._close_channel if self._has_ended else self._close_gracefully)
        elif not self._is_reading and self._may_receive():
            self._is_reading = True
            self._loop.add_reader(self._fd, self._on_readable)
        if self._buffer.capacity_bytes > SMALL_BYTES and not self.is_closed:
            self._to_sweep[self] = None
            if self._reserved_bytes and self._inflight_bytes.buffer_bytes.waiting_count:
                self._trim()

    # Conditions.

    def _may_serve(self) -> bool:
        slots = self._slots
        if (
            self._held_by is not None
            or self.is_closed
            or self._is_draining
            or self.muted_until_ms is not None
            or self._queue.size_bytes + self._blocked_bytes > self._unsent_limit_bytes
            or len(slots) >= self._requests_limit
        ):
            return False
        if slots and self._inflight_bytes.overlapping_requests.is_full:
            self._inflight_bytes.overlapping_requests.wait(self._proceed)
            return False
        return True

    def _may_take_steps(self) -> bool:
        """Whether few large requests are in progress; if not, be called back later.

        Once the first step was run, the others follow.
        """
        wanted_bytes = self._awaited_stepwise_bytes
        if wanted_bytes:
            bound = self._inflight_bytes.stepwise_bytes
            if bound.is_full:
                bound.wait(self._proceed)
                return False
            bound.acquire(wanted_bytes)
            self._stepwise_bytes, self._awaited_stepwise_bytes = wanted_bytes, 0
        return True

    def _may_receive(self) -> bool:
        if self._has_ended or not self._may_serve():
            return False
        wanted_bytes = self._buffer.awaited_bytes
        if wanted_bytes <= BUSY_BYTES or wanted_bytes <= self._reserved_bytes:
            return True
        return self._reserve(wanted_bytes)

    def _reserve(self, wanted_bytes: int) -> bool:
        """Whether there is memory for a large frame; otherwise be called back later."""
        bound = self._inflight_bytes.buffer_bytes
        # A waiting connection keeps nothing, or two could wait for each other, or one for itself.
        bound.release(self._reserved_bytes)
        self._reserved_bytes = 0
        if bound.is_full:
            # Other connections may hold memory that they do not use.
            for other in list(self._to_sweep):
                other._trim()
        if bound.is_full:
            bound.wait(self._proceed)
            return False
        bound.acquire(wanted_bytes)
        self._reserved_bytes = wanted_bytes
        return True

    def _trim(self) -> None:
        """Release the memory of large frames, unless one is arriving."""
        if self._is_serving or self._keeps_frame or self._buffer.awaited_bytes > BUSY_BYTES:
            return
        self._buffer.trim()
        if self._reserved_bytes and self._buffer.capacity_bytes <= SMALL_BYTES:
            self._inflight_bytes.buffer_bytes.release(self._reserved_bytes)
            self._reserved_bytes = 0

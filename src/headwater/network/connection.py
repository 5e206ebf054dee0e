"""One accepted connection: frames in, answers out, in order.

What a reader would get wrong: nothing here is called from within itself. An answer, whoever gives
it, only notes what is to be done; serving and sending happen in `_serve_and_send`, which only the
loop calls. All that is answered within one turn of the loop leaves together, and where many
connections wait for that turn, all of them are served before the answers of any leave. Whose the
bytes of a frame are is written in `headwater.network.request_service`.

How much of the loop's time a connection gets is decided by `fair_queue`: each entry
from the loop asks it first, and is charged for the time that it took.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from headwater.common.exceptions import ConnectionLost, ProtocolError
from headwater.common.principal import ANONYMOUS, Requester
from headwater.network.event_loop import Loop
from headwater.network.limits.closed_connection_log import Complaints
from headwater.network.limits.fair_queue import SHARE_NS, FairQueue
from headwater.network.limits.idle_expiry import CoarseClock
from headwater.network.limits.inflight_bytes import STEPWISE_SMALL_BYTES, InflightBytes
from headwater.network.network_settings import NetworkSettings
from headwater.network.receive_buffer import BUSY_BYTES, SMALL_BYTES, ReceiveBuffer
from headwater.network.request_service import ClientAddress, ReplySlot, Service
from headwater.network.response_batching import ResponseBatching
from headwater.network.send_queue import SendQueue, release, size_of
from headwater.network.transport_layer import TransportLayer

# What one connection may do before the loop turns to the others. A consumer asks for a mebibyte of
# a partition, and that with all around it shall not need another turn.
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
    # Those that want to hear of the next sweep: they are muted, or their buffers have grown.
    attentive: "dict[Connection, None]"
    # Called once for each connection that has ended, before the service hears of it.
    departed: "Callable[[Connection], None]"
    # Whether many connections wait for this turn of the loop; then their answers leave together.
    is_crowded: Callable[[], bool]
    response_batching: ResponseBatching
    fair_queue: FairQueue
    complaints: Complaints
    # Both take over the channel of a connection that has ended: one closes it, the other waits
    # for the peer to do so. Until it is closed its peer counts as connected.
    close: Callable[[TransportLayer, ClientAddress], None]
    part: Callable[[TransportLayer, ClientAddress], None]


class Connection:
    """See the module. For the loop's thread only."""

    __slots__ = (
        "_attentive",
        "_awaited_stepwise_bytes",
        "_blocked_bytes",
        "_buffer",
        "_channel",
        "_clock",
        "_close_channel",
        "_complaints",
        "_departed",
        "_fair",
        "_fd",
        "_has_ended",
        "_has_more",
        "_held_by",
        "_inflight_bytes",
        "_is_crowded",
        "_is_leaving",
        "_is_queued",
        "_is_reading",
        "_is_scheduled",
        "_is_serving",
        "_is_writing",
        "_loop",
        "_part",
        "_queue",
        "_requests_limit",
        "_reserved_bytes",
        "_response_batching",
        "_service",
        "_slots",
        "_steps",
        "_stepwise_bytes",
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
        surroundings: ConnectionContext,
        listener_tag_ns: int = 0,
    ) -> None:
        settings = surroundings.settings
        self.address = address
        self.requester = Requester(ANONYMOUS, address.peer_host)
        self.active_ms = self.since_ms = surroundings.clock.now_ms
        self.muted_until_ms: int | None = None
        self.is_closed = False
        self._channel = channel
        self._fd = channel.fileno()
        self._loop = surroundings.loop
        self._service = surroundings.service
        self._inflight_bytes = surroundings.inflight_bytes
        self._clock = surroundings.clock
        self._attentive = surroundings.attentive
        self._departed = surroundings.departed
        self._is_crowded = surroundings.is_crowded
        self._response_batching = surroundings.response_batching
        self._fair = surroundings.fair_queue
        self._complaints = surroundings.complaints
        self._close_channel = surroundings.close
        self._part = surroundings.part
        self._requests_limit = settings.headwater_connection_requests_max
        self._unsent_limit_bytes = settings.headwater_connection_unsent_bytes_max
        self._buffer = ReceiveBuffer(settings.socket_request_max_bytes)
        self._queue = SendQueue()
        self._slots: deque[ReplySlot] = deque()
        self._held_by: ReplySlot | None = None
        self._steps: Iterator[None] | None = None
        # Of the request that is answered in steps: to be taken from the account, and taken.
        self._awaited_stepwise_bytes = 0
        self._stepwise_bytes = 0
        # In the queue's virtual time: from when on, and so far. And until when this turn lasts.
        self.first_tag_ns = self.tag_ns = surroundings.fair_queue.first_tag_ns(listener_tag_ns)
        self._until_ns = 0
        self._wants_to_read = False
        self._is_queued = False
        # Whether this turn ended before there was nothing left to do.
        self._has_more = False
        self._blocked_bytes = 0
        self._reserved_bytes = 0
        self._has_ended = False
        self._is_leaving = False
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
        """Bytes of answers that have not left, those that wait for an earlier one included."""
        return self._queue.size_bytes + self._blocked_bytes

    @property
    def buffer_bytes(self) -> int:
        """The size of the receive buffer."""
        return self._buffer.capacity_bytes

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed to the peer that could still come."""
        return not self._slots

    def mute(self, until_ms: int) -> None:
        """Serve and read nothing before `sweep` or `unmute` is told of that time.

        Answers still leave.
        """
        if not self.is_closed:
            self.muted_until_ms = max(until_ms, self.muted_until_ms or until_ms)
            self._attentive[self] = None

    def unmute(self, now_ms: int) -> None:
        """Speak again, if the time is over."""
        if self.muted_until_ms is not None and now_ms >= self.muted_until_ms:
            self.muted_until_ms = None
            self._proceed_soon()

    def guard(self, service: Service, *, frame_limit_bytes: int) -> None:
        """Have another service serve it from now on, and frames up to that size only."""
        self._service = service
        self._buffer.limit_frames(frame_limit_bytes)

    def sweep(self, now_ms: int) -> None:
        """Time has passed: what was muted speaks again, memory that nobody used is given back."""
        self.unmute(now_ms)
        # Whoever was active since the last sweep, when the clock was set, will need it again.
        if self.active_ms < self._clock.now_ms:
            self._trim()
        if self.muted_until_ms is None and self._buffer.capacity_bytes <= SMALL_BYTES:
            self._attentive.pop(self, None)

    def leave(self) -> None:
        """Take no further request; close when all answers are sent."""
        self._is_leaving = True
        self._proceed_soon()

    def close(self) -> None:
        """End it now, whatever is under way. May be called again."""
        self._end(self._close_channel)

    def _end(self, part: Callable[[TransportLayer, ClientAddress], None]) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        # Before the descriptor is closed: its number may be another connection's a moment later.
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        part(self._channel, self.address)
        self._end_steps()
        self._inflight_bytes.stepwise_bytes.forget(self._proceed)
        slots, self._slots = self._slots, deque()
        if len(slots) > 1:
            self._inflight_bytes.overlapping_requests.give_back(len(slots) - 1)
        self._inflight_bytes.overlapping_requests.forget(self._proceed)
        self._inflight_bytes.buffer_bytes.give_back(self._reserved_bytes)
        self._inflight_bytes.buffer_bytes.forget(self._proceed)
        self._reserved_bytes = 0
        self._attentive.pop(self, None)
        try:
            self._queue.drop()
            for slot in slots:
                release(slot.parts or ())
        finally:
            self._departed(self)
            self._service.closed(self)

    # What slots tell.

    def note_answer(self, slot: ReplySlot) -> None:
        """Called by the slot: it has been answered."""
        parts = slot.parts
        assert parts is not None
        if self.is_closed:
            release(parts)
            return
        if slot is self._held_by:
            self._held_by = None
        slots = self._slots
        if slot is slots[0]:
            self._queue.put(parts)
            slots.popleft()
            if slots:
                self._unblock()
        else:
            self._blocked_bytes += sum(map(size_of, parts))
        self._proceed_soon()

    def note_hold(self, slot: ReplySlot) -> None:
        """Called by the slot: nothing is to be served beside it."""
        if slot.parts is None:
            self._held_by = slot

    def note_steps(self, slot: ReplySlot, steps: Iterator[None], size_bytes: int) -> None:
        """Called by the slot: its answer takes these steps, if need be after the present one."""
        assert self._steps is None or slot is self._held_by, "one request at a time has steps"
        if not self.is_closed:
            self.note_hold(slot)
            self._steps = steps
            if size_bytes > STEPWISE_SMALL_BYTES:
                self._awaited_stepwise_bytes = size_bytes
            self._proceed_soon()

    def _unblock(self) -> None:
        """Pass on the answers that waited only for the one before them."""
        slots = self._slots
        answered = 1
        while slots and (parts := slots[0].parts) is not None:
            self._blocked_bytes -= sum(map(size_of, parts))
            self._queue.put(parts)
            slots.popleft()
            answered += 1
        # One request of each connection is not counted, and the last one here was that one.
        self._inflight_bytes.overlapping_requests.give_back(answered if slots else answered - 1)

    # What the loop tells.

    def _on_readable(self) -> None:
        if self._is_queued or self._is_scheduled or self.is_closed:
            # What has come before is served first; the loop will tell again.
            return
        if self._fair.admits(self):
            self._guard(self._read)
        else:
            self._is_queued = self._wants_to_read = True

    def _proceed(self) -> None:
        self._is_scheduled = False
        if self._is_queued:
            return
        if self._fair.admits(self):
            self._guard(self._serve_and_send)
        else:
            self._is_queued = True

    def take_turn(self) -> None:
        """Called by the queue."""
        self._is_queued = False
        wants_to_read, self._wants_to_read = self._wants_to_read, False
        if not self.is_closed:
            self._guard(self._read if wants_to_read else self._serve_and_send)

    def _guard(self, step: Callable[[], None]) -> None:
        """The top of the shell: whatever goes wrong ends this connection and no other."""
        fair = self._fair
        began_ns = fair.now_ns()
        self._until_ns = began_ns + SHARE_NS
        try:
            step()
        except ConnectionLost as lost:
            _log.debug("%s: %s", self.address, lost)
            self.close()
        except ProtocolError as error:
            self._complaints.tell(self.address, error)
            # What was answered before still leaves, as far as it goes at once.
            with suppress(ConnectionLost):
                self._send(_SENT_BYTES_PER_TURN)
            self.close()
        except Exception as error:  # noqa: BLE001, it is reported, and the loop goes on
            self._service.failed(self, error)
            self.close()
        fair.charge(self, fair.now_ns() - began_ns)
        if self._has_more:
            # Only now, when it is known what this turn has cost.
            self._has_more = False
            if not (self._is_scheduled or self._is_queued or self.is_closed):
                self._is_queued = True
                fair.wait(self)

    def _read(self) -> None:
        if not self._may_receive():
            # Removed only now: most pauses end before the peer sends more.
            self._is_reading = False
            self._loop.remove_reader(self._fd)
        elif self._receive():
            if self._buffer.capacity_bytes <= SMALL_BYTES and self._is_crowded():
                # To send is to wake whoever waits for it, who then falls asleep before the next
                # answer; one after another, answers find their readers awake. Not so where much
                # has come: its answers share a call already, and others would wait for long.
                self._serve(_FRAMES_PER_TURN)
                if not (self._is_scheduled or self._is_queued or self.is_closed):
                    self._is_scheduled = True
                    self._response_batching.add(self._proceed)
            else:
                self._serve_and_send()

    def _receive(self) -> bool:
        """Take in what has come; False when it surely does not complete a frame.

        More than once for a large frame: while one piece was copied the next has come, and asking
        for it is cheaper than a turn of the loop.
        """
        for _ in range(_RECEIVES_PER_TURN):
            count = self._channel.receive_into(self._buffer.room())
            if count is None:
                return False
            self.active_ms = self._clock.now_ms
            if not count:
                self._has_ended = True
                return True
            if not self._buffer.received(count):
                return True
        return False

    def _proceed_soon(self) -> None:
        if not (self._is_scheduled or self._is_queued or self._is_serving or self.is_closed):
            self._is_scheduled = True
            self._loop.call_soon(self._proceed)

    def _serve_and_send(self) -> None:
        """Serve what has come and send what is answered, until there is no more of either."""
        served_left = _FRAMES_PER_TURN
        sent_left_bytes = _SENT_BYTES_PER_TURN
        is_over = False
        while not self.is_closed:
            # Sent before served, because what has left makes room for further requests.
            if sent_left_bytes > 0:
                sent_left_bytes -= self._send(sent_left_bytes)
            if self._steps is not None:
                if not self._may_take_steps():
                    break
                if not self._take_steps():
                    self._has_more = True
                    return
                continue
            if self._is_at_rest():
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
            self._settle()

    def _take_steps(self) -> bool:
        """Work on a request that is answered in steps; whether the last one has been taken."""
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
            self._inflight_bytes.stepwise_bytes.give_back(self._stepwise_bytes)
            self._stepwise_bytes = 0

    def _is_at_rest(self) -> bool:
        """Whether there is nothing to serve, to send or to settle, as after most small requests."""
        return (
            self._buffer.is_empty
            and not self._queue.size_bytes
            and self._is_reading
            and not (self._is_writing or self._has_ended or self._is_leaving)
            and self._buffer.capacity_bytes <= SMALL_BYTES
        )

    def _serve(self, limit: int) -> int:
        """Hand over as many frames as are there and allowed; how many it were."""
        served = 0
        now_ns, until_ns = self._fair.now_ns, self._until_ns
        self._is_serving = True
        try:
            while served < limit and self._may_serve():
                frame = self._buffer.next_frame()
                if frame is None:
                    break
                served += 1
                slot = ReplySlot(self)
                if self._slots:
                    self._inflight_bytes.overlapping_requests.take(1)
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

    def _settle(self) -> None:
        """Tell the loop what to watch, now that nothing more can be done."""
        must_write = self._queue.size_bytes > 0
        if must_write and not self._is_writing:
            self._loop.add_writer(self._fd, self._proceed)
        elif self._is_writing and not must_write:
            self._loop.remove_writer(self._fd)
        self._is_writing = must_write
        if (self._has_ended or self._is_leaving) and not self._slots and not must_write:
            # What is left in the buffer after the end of the stream is no whole frame: nothing is
            # received before everything is served.
            self._end(self._close_channel if self._has_ended else self._part)
        elif not self._is_reading and self._may_receive():
            self._is_reading = True
            self._loop.add_reader(self._fd, self._on_readable)
        if self._buffer.capacity_bytes > SMALL_BYTES and not self.is_closed:
            self._attentive[self] = None
            if self._reserved_bytes and self._inflight_bytes.buffer_bytes.waiting_count:
                self._trim()

    # What may be done now.

    def _may_serve(self) -> bool:
        slots = self._slots
        if (
            self._held_by is not None
            or self.is_closed
            or self._is_leaving
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
        """Whether few enough large requests are being worked on; if not, be called when they are.

        Once the first step is taken, the others are.
        """
        wanted_bytes = self._awaited_stepwise_bytes
        if wanted_bytes:
            bound = self._inflight_bytes.stepwise_bytes
            if bound.is_full:
                bound.wait(self._proceed)
                return False
            bound.take(wanted_bytes)
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
        """Whether there is memory for a large frame; if not, be called when there is."""
        bound = self._inflight_bytes.buffer_bytes
        # Whoever waits keeps nothing, or two could wait for each other, and one for itself.
        bound.give_back(self._reserved_bytes)
        self._reserved_bytes = 0
        if bound.is_full:
            # Others may have memory that they only keep in case they need it again.
            for other in list(self._attentive):
                other._trim()
        if bound.is_full:
            bound.wait(self._proceed)
            return False
        bound.take(wanted_bytes)
        self._reserved_bytes = wanted_bytes
        return True

    def _trim(self) -> None:
        """Give back the memory of large frames, unless one is arriving."""
        if self._is_serving or self._buffer.awaited_bytes > BUSY_BYTES:
            return
        self._buffer.trim()
        if self._reserved_bytes and self._buffer.capacity_bytes <= SMALL_BYTES:
            self._inflight_bytes.buffer_bytes.give_back(self._reserved_bytes)
            self._reserved_bytes = 0

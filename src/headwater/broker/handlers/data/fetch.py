"""Fetch: read batches, waiting for data if necessary (FT-1 to FT-12).

A fetch that finds less than min_bytes waits, as an entry at each of its partitions and in the timer
(`delayed_fetch`). A fetch of many partitions reads and answers in steps, even if its request is
small: an incremental request of a few bytes may concern all partitions of a large session.

Followers send the same request, but are served by `headwater.broker.handlers.data.follower_fetch`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Final

from headwater.broker.handlers.data.delayed_fetch import DelayedFetch
from headwater.broker.handlers.data.fetch_response import STEP_PARTITIONS, PendingFetchResponse
from headwater.broker.handlers.data.follower_fetch import handle_follower, replica_of
from headwater.broker.handlers.data.leader_hints import FETCH_SINCE, hint_consumer
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.broker.requests.throttled_call import ThrottledCall
from headwater.common.api_error import ApiError
from headwater.common.ids import NO_TOPIC_ID, NodeId
from headwater.common.settings.broker_settings import RACK_AWARE_SELECTOR
from headwater.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headwater.replication.fetch.fetch_session import NO_SESSION, FetchContext
from headwater.replication.fetch.log_reads import (
    FetchLimits,
    FetchReads,
    PartitionRead,
    read_partitions,
)
from headwater.replication.fetch.replica_selector import nearest_replica
from headwater.replication.partition import Partition
from headwater.security.authorization.authorizer import Operation
from headwater.storage.log.unified_log import ReadBound

_WHOLE_PARTITIONS: Final = 200
"""A fetch of more partitions is answered in steps."""

_RACKS_SINCE: Final = 11
_IDS_SINCE: Final = 13
_READ_COMMITTED: Final = 1
_UNKNOWN: Final = -1


def handle(broker: Broker, request: FetchRequest, call: Call) -> FetchResponse | None:
    replica_id = replica_of(request)
    if replica_id is not None:
        return handle_follower(broker, request, call, replica_id)
    context = broker.sessions.resolve(
        request, uses_topic_ids=call.version >= _IDS_SINCE, now_ms=broker.clock.now_ms()
    )
    if context.error is not None:
        call.record_error(context.error)
        return FetchResponse(error_code=context.error)
    _Fetch(broker, request, call, context).begin(request.max_wait_ms)
    return None


def error_response(request: FetchRequest, error: ApiError) -> FetchResponse:
    """Return the error, in each partition too for versions without topic ids."""
    topics = [each for each in request.topics if each.topic_id == NO_TOPIC_ID]
    return FetchResponse(
        error_code=error.code,
        session_id=request.session_id,
        responses=tuple(
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=tuple(
                    PartitionData(
                        partition_index=each.partition,
                        error_code=error.code,
                        high_watermark=_UNKNOWN,
                        records=b"",
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def _preference(broker: Broker, rack: str) -> Callable[[Partition, int], NodeId | None] | None:
    """Return the selector of a closer replica for a consumer with a rack (FT-10)."""
    settings = broker.settings
    if not rack or settings.replica_selector_class != RACK_AWARE_SELECTOR:
        return None

    def rack_of(node_id: NodeId) -> str | None:
        found = broker.image.brokers.get(node_id)
        return None if found is None else found.rack

    def prefer(hosted: Partition, offset: int) -> NodeId | None:
        if hosted.leader_state is None:
            return None
        return nearest_replica(
            hosted.leader_state,
            offset,
            own_rack=settings.broker_rack,
            client_rack=rack,
            rack_of=rack_of,
        )

    return prefer


class _Fetch(DelayedFetch):
    """A consumer's Fetch request."""

    __slots__ = ("_deadline_ms", "_has_new_data", "_is_reading", "_limits", "_watched")

    def __init__(
        self, broker: Broker, request: FetchRequest, call: Call, context: FetchContext
    ) -> None:
        max_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
        if broker.quotas is not None and isinstance(call, ThrottledCall):
            max_bytes = call.fetch_limit_bytes(max_bytes)
        committed_only = request.isolation_level == _READ_COMMITTED
        super().__init__(broker, call, context, min(request.min_bytes, max_bytes))
        self._limits = FetchLimits(
            max_bytes=max_bytes,
            bound=ReadBound.LAST_STABLE if committed_only else ReadBound.HIGH_WATERMARK,
            may_read=partial(broker.is_authorized_for_topic, call, Operation.READ),
            may_follow=call.version >= _RACKS_SINCE,
            prefer=_preference(broker, request.rack_id),
        )
        self._watched: Sequence[Partition] = ()
        # For a fetch in steps: the deadline, whether it is reading, and whether data arrived
        # meanwhile.
        self._deadline_ms = 0
        self._is_reading = False
        self._has_new_data = False

    def begin(self, max_wait_ms: int) -> None:
        if self._is_large:
            deadline_ms = self._broker.clock.steady_ms() + max(0, max_wait_ms)
            self._call.run_steps(self._in_steps(deadline_ms))
            return
        reads = self._read()
        if max_wait_ms <= 0 or not self._context.partitions or self._is_enough(reads):
            self._answer(reads)
            return
        self._watched = [
            each.hosted for each in self._context.partitions if each.hosted is not None
        ]
        for hosted in self._watched:
            hosted.readers[self] = None
        self._wait(reads.size_bytes, max_wait_ms)

    @property
    def _is_large(self) -> bool:
        return len(self._context.partitions) > _WHOLE_PARTITIONS

    def _in_steps(self, deadline_ms: int) -> Iterator[None]:
        """Read a few partitions per step, then answer, or wait until the deadline.

        The connection is held until the response, so it has no other request in steps.
        """
        self._deadline_ms = deadline_ms
        is_done = False
        while not is_done:
            is_done = yield from self._read_in_steps()

    def _read_in_steps(self) -> Generator[None, None, bool]:
        """Read; return False if data arrived in a partition that was read before.

        True means that the request is answered or waits.
        """
        broker, wanted = self._broker, self._context.partitions
        response = self._response([])
        size_bytes, is_final = 0, False
        is_answered = is_waiting = False
        watched: list[Partition] = []
        self._is_reading, self._has_new_data = True, False
        try:
            for start in range(0, len(wanted), STEP_PARTITIONS):
                some = wanted[start : start + STEP_PARTITIONS]
                reads = read_partitions(some, broker.partitions, self._limits, size_bytes)
                size_bytes, is_final = reads.size_bytes, is_final or reads.is_final
                response.add(reads.partitions, broker.ranges)
                for hosted in [each.hosted for each in some if each.hosted is not None]:
                    watched.append(hosted)
                    hosted.readers[self] = None
                yield
            left_ms = self._deadline_ms - broker.clock.steady_ms()
            is_enough = is_final or size_bytes >= self._min_bytes or self._cannot_complete()
            if left_ms <= 0 or is_enough:
                if not self._is_throttled(size_bytes):
                    is_answered = True
                    response.finish()
                return True
            if self._has_new_data:
                return False
            is_waiting = True
            self._watched = watched
            self._wait(size_bytes, left_ms)
            return True
        finally:
            self._is_reading = False
            if not is_waiting:
                for hosted in watched:
                    hosted.readers.pop(self, None)
            if not is_answered:
                response.abandon()

    def more_to_read(self, size_bytes: int) -> None:
        if self._is_reading:
            self._has_new_data = True
        else:
            super().more_to_read(size_bytes)

    def expire(self) -> None:
        if self._is_large and not self.is_disconnected:
            self._stop_waiting()
            self._call.run_steps(self._in_steps(self._deadline_ms))
        else:
            super().expire()

    def _read_again(self) -> None:
        if not self._is_large or self.is_done or self.is_disconnected:
            super()._read_again()
            return
        # A copy continues with the steps, since this one may still be in the timer.
        self._stop_waiting()
        successor = copy(self)
        successor.is_done = successor._is_due = False
        self._call.run_steps(successor._in_steps(self._deadline_ms))

    def _cannot_complete(self) -> bool:
        return any(each.is_deleted for each in self._watched)

    def _stop_waiting(self) -> None:
        super()._stop_waiting()
        for hosted in self._watched:
            hosted.readers.pop(self, None)

    def _read(self) -> FetchReads:
        return read_partitions(self._context.partitions, self._broker.partitions, self._limits)

    def _answer(self, reads: FetchReads) -> None:
        if not self._is_throttled(reads.size_bytes):
            self._response(reads.partitions).begin(self._broker.ranges)

    def _response(self, reads: list[PartitionRead]) -> PendingFetchResponse:
        call, broker = self._call, self._broker
        hint = partial(hint_consumer, broker, call) if call.version >= FETCH_SINCE else None
        return PendingFetchResponse(call, self._context, reads, hint)

    def _is_throttled(self, size_bytes: int) -> bool:
        """Answer with a throttle time and no records, if the client's quota is exceeded."""
        call = self._call
        if self._broker.quotas is None or not isinstance(call, ThrottledCall):
            return False
        throttle_ms = call.throttle_fetch(size_bytes)
        if throttle_ms > 0:
            self._answer_throttled(throttle_ms)
        return throttle_ms > 0

    def _answer_throttled(self, throttle_ms: int) -> None:
        """Answer without records: the client is throttled and fetches again (KIP-219)."""
        session = self._context.session
        if session is not None and not self._context.is_incremental:
            # Clients take an empty response to a full fetch request as the end of the session.
            self._broker.sessions.remove(session)
            session = None
        session_id = NO_SESSION if session is None else session.session_id
        self._call.answer(FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id))

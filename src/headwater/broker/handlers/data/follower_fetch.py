"""Fetch requests of followers.

A follower reads up to the log end offset, and only the partitions of its session that are due are
examined (see `follower_fetch_session`).

Note: a second fetch in the same session completes the first one at once, since the follower has new
fetch offsets.
"""

from functools import partial
from typing import Final

from headwater.broker.handlers.data.delayed_fetch import DelayedFetch
from headwater.broker.handlers.data.fetch_response import PendingFetchResponse
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.broker.requests.throttled_call import ThrottledCall
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.common.settings.broker_settings import RACK_AWARE_SELECTOR
from headwater.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headwater.replication.fetch.fetch_session import FetchContext
from headwater.replication.fetch.follower_fetch_session import FollowerSession, read_due
from headwater.replication.fetch.log_reads import FetchReads
from headwater.security.authorization.authorizer import CLUSTER, Operation

_IDS_SINCE: Final = 13
_UNKNOWN: Final = -1


def replica_of(request: FetchRequest) -> NodeId | None:
    """Return the follower's broker id, or None for a consumer."""
    replica_id = max(request.replica_id, request.replica_state.replica_id)
    return NodeId(replica_id) if replica_id >= 0 else None


def handle_follower(
    broker: Broker, request: FetchRequest, call: Call, replica_id: NodeId
) -> FetchResponse | None:
    if not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        # Checked before anything is done for it, or for the session that it names.
        call.record_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _unauthorized(request)
    if isinstance(call, ThrottledCall):
        call.exempt()
    known = broker.sessions.get(request.session_id)
    if isinstance(known, FollowerSession) and known.force_complete is not None:
        known.force_complete()
    context = broker.sessions.resolve(
        request,
        uses_topic_ids=call.version >= _IDS_SINCE,
        now_ms=broker.clock.now_ms(),
        new_session=partial(
            FollowerSession,
            replica_id=replica_id,
            wakes_on_high_watermark=broker.settings.replica_selector_class == RACK_AWARE_SELECTOR,
        ),
    )
    if context.error is not None:
        call.record_error(context.error)
        return FetchResponse(error_code=context.error)
    session = context.scope
    if session is None:
        return FetchResponse()
    if not isinstance(session, FollowerSession) or session.replica_id != replica_id:
        # The session belongs to another replica.
        call.record_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    session.update_broker_epoch(request.replica_state.replica_epoch)
    session.fetched_ms = broker.clock.steady_ms()
    _FollowerFetch(broker, request, call, context, session).begin(request.max_wait_ms)
    return None


def _unauthorized(request: FetchRequest) -> FetchResponse:
    """Return an error for each partition and create no session, as Kafka 4.1 does."""
    return FetchResponse(
        responses=tuple(
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionData(
                        partition_index=each.partition,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        high_watermark=_UNKNOWN,
                        records=b"",
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


class _FollowerFetch(DelayedFetch):
    """A follower's Fetch request."""

    __slots__ = ("_max_bytes", "_session")

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        call: Call,
        context: FetchContext,
        session: FollowerSession,
    ) -> None:
        super().__init__(broker, call, context, min(request.min_bytes, request.max_bytes))
        self._session = session
        self._max_bytes = request.max_bytes

    def begin(self, max_wait_ms: int) -> None:
        # Registered before the read: the follower's fetch offsets may advance the high watermark
        # and thereby cause new appends, such as transaction markers, which must not wait until this
        # fetch times out.
        self._session.start_waiting(self.more_to_read, self.force_complete)
        reads = self._read()
        if max_wait_ms <= 0 or self._is_enough(reads):
            self.is_done = True
            self._session.stop_waiting()
            self._answer(reads)
        else:
            self._wait(reads.size_bytes, max_wait_ms)

    def force_complete(self) -> None:
        self.expire()

    def _stop_waiting(self) -> None:
        super()._stop_waiting()
        self._session.stop_waiting()

    def _read(self) -> FetchReads:
        return read_due(self._session, self._broker.partitions, max_bytes=self._max_bytes)

    def _answer(self, reads: FetchReads) -> None:
        PendingFetchResponse(self._call, self._context, reads.partitions).begin(self._broker.ranges)
        if self._context.session is None:
            # The session cache is full, so this session is not kept.
            self._session.close()

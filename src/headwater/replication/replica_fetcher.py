"""Fetch all partitions that this broker follows of one leader.

Partitions are named in a fetch session once and then only when their state changes (KIP-227), so an
idle partition costs nothing.

Note: when a partition is added while a fetch waits at the leader, a second request is sent. It
makes the leader answer the first at once, so the new partition does not wait for
`replica.fetch.wait.max.ms`.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicId
from headwater.common.ports import Clock
from headwater.metadata.ports.inter_broker_client import InterBrokerClient, Purpose
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from headwater.protocol.older_versions import Message
from headwater.replication.follower_state import FollowerState, Key, Outcome
from headwater.replication.leader_log_range import look_up_range
from headwater.replication.partition import Partition
from headwater.replication.purgatory.timer import Timer, WakeupTimer

_log = logging.getLogger(__name__)

_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_LARGEST_EPOCH: Final = 2**31 - 1
_MOST_IN_FLIGHT: Final = 2
_LOG_EVERY: Final = 60
"""An unreachable leader is logged at once and then after this many failures (about a minute)."""

_FIRST_DELAY_MS: Final = 50
"""First retry delay. Short, because a follower often learns of a new leader before that leader
does.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """`replica.fetch.*` settings and the request timeout."""

    min_bytes: int = 1
    max_bytes: int = 1_048_576
    response_max_bytes: int = 10_485_760
    wait_max_ms: int = 500
    backoff_ms: int = 1_000
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetcherServices:
    """What all fetchers of a broker share."""

    node_id: NodeId
    broker_epoch: Callable[[], int]
    inter_broker_client: InterBrokerClient
    clock: Clock
    timer: Timer
    settings: FetchSettings
    # Whether the follower replication quota allows fetching a partition now.
    may_fetch: Callable[[Partition], bool]
    # Records bytes fetched for a partition.
    record_bytes: Callable[[Partition, int], None]


class ReplicaFetcher:
    """Exists as long as this broker follows a partition of the leader."""

    def __init__(self, leader: NodeId, services: ReplicaFetcherServices) -> None:
        self.leader = leader
        self._services = services
        self._following: dict[Key, FollowerState] = {}
        # Partitions that the next request adds to or updates in the session, and those it removes.
        self._updated: dict[FollowerState, None] = {}
        self._forgotten: dict[Key, None] = {}
        self._delayed: dict[FollowerState, None] = {}
        self._session_id = _NO_SESSION
        self._session_epoch = _FIRST_EPOCH
        self._in_flight = 0
        self._sent = 0
        # Incremented with each session; responses to requests of an earlier session are ignored.
        self._session_number = 0
        self._failures = 0
        self._backoff = WakeupTimer(services.timer, self._send)
        self._wake = WakeupTimer(services.timer, self._end_delays)
        self._wake_ms = 0
        self._soon = WakeupTimer(services.timer, self._send)

    def __len__(self) -> int:
        return len(self._following)

    @property
    def max_lag(self) -> int:
        return max((each.lag for each in self._following.values()), default=0)

    def follow(self, partition: Partition) -> None:
        """Start to fetch a partition, or continue under its new leader epoch."""
        state = FollowerState(partition)
        known = self._following.get(state.key)
        if (
            known is not None
            and known.leader_epoch == state.leader_epoch
            and known.log is state.log
        ):
            return
        self.unfollow(partition)
        try:
            state.begin(self._services.clock.now_ms())
        except HeadwaterError as error:
            _log.warning(
                "Cannot truncate before fetching: partition=%s error=%s", partition.name, error
            )
        self._following[state.key] = state
        self._forgotten.pop(state.key, None)
        self._updated[state] = None
        self._backoff.cancel()
        # Not at once: a thousand partitions may be added in the same turn of the event loop.
        if not self._soon.is_set:
            self._soon.set(self._services.clock.steady_ms())

    def unfollow(self, partition: Partition) -> None:
        key = (partition.topic.topic_id, partition.name.partition)
        state = self._following.pop(key, None)
        if state is not None:
            self._leave_session(state)
            self._delayed.pop(state, None)

    def close(self) -> None:
        self._session_number += 1
        self._following.clear()
        for timer in (self._backoff, self._wake, self._soon):
            timer.cancel()

    # Requests.

    def _send(self) -> None:
        """Send a fetch, unless one is in flight and a second would not speed it up."""
        is_urgent = any(not each.is_in_session for each in self._updated)
        if self._in_flight >= (_MOST_IN_FLIGHT if is_urgent else 1) or self._backoff.is_set:
            return
        if not self._has_partitions_to_fetch():
            return
        services = self._services
        self._sent += 1
        session_number, number, request = self._session_number, self._sent, self._request()
        self._in_flight += 1
        services.inter_broker_client.send_request(
            self.leader,
            request,
            purpose=Purpose.REPLICATION,
            timeout_ms=services.settings.timeout_ms,
            then=lambda response: self._handle_response(session_number, number, response),
            on_error=lambda error: self._handle_failure(session_number, error),
        )

    def _has_partitions_to_fetch(self) -> bool:
        """Return whether there is anything to fetch; drop a session without partitions."""
        self._delay_throttled()
        if len(self._following) > len(self._delayed):
            # A second request can only continue a session, not create one.
            return self._session_id != _NO_SESSION or not self._in_flight
        if self._session_id != _NO_SESSION and not self._in_flight:
            self._drop_session()
        return False

    def _delay_throttled(self) -> None:
        for state in list(self._updated):
            if not self._services.may_fetch(state.partition):
                self._delay(state)

    def _request(self) -> FetchRequest:
        services, settings = self._services, self._services.settings
        if self._session_id == _NO_SESSION:
            self._forgotten.clear()
            named = [each for each in self._following.values() if not each.is_delayed]
        else:
            named = list(self._updated)
        self._updated.clear()
        by_topic: dict[TopicId, list[FetchPartition]] = {}
        for state in named:
            entry = state.fetch_entry(settings.max_bytes, self._sent)
            by_topic.setdefault(state.key[0], []).append(entry)
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=services.node_id, replica_epoch=services.broker_epoch()
            ),
            # The first request does not wait: a second one is only possible once there is a
            # session.
            max_wait_ms=0 if self._session_id == _NO_SESSION else settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=tuple(
                FetchTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in by_topic.items()
            ),
            forgotten_topics_data=self._forgotten_topics(),
        )
        if self._session_id != _NO_SESSION:
            self._next_epoch()
        return request

    def _forgotten_topics(self) -> tuple[ForgottenTopic, ...]:
        by_topic: dict[TopicId, list[int]] = {}
        for topic_id, number in self._forgotten:
            by_topic.setdefault(topic_id, []).append(number)
        self._forgotten.clear()
        return tuple(
            ForgottenTopic(topic_id=topic_id, partitions=tuple(numbers))
            for topic_id, numbers in by_topic.items()
        )

    # Answers.

    def _handle_response(self, session_number: int, number: int, response: Message) -> None:
        assert isinstance(response, FetchResponse)
        if session_number != self._session_number:
            return
        self._in_flight -= 1
        if self._failures:
            _log.info("Leader answers fetch requests again: leader=%d", self.leader)
        self._failures = 0
        if response.error_code:
            # The leader does not know the session or its epoch. Create a new one at once; if that
            # was already a new one, back off.
            was_new_session = self._session_id == _NO_SESSION
            _log.debug(
                "Leader rejected a fetch request: leader=%d error=%s",
                self.leader,
                response.error_code.name,
            )
            self._drop_session()
            if was_new_session:
                self._back_off()
            self._send()
            return
        if self._session_id == _NO_SESSION and response.session_id != _NO_SESSION:
            self._session_id, self._session_epoch = response.session_id, 1
        now_ms = self._services.clock.now_ms()
        for topic in response.responses:
            for data in topic.partitions:
                state = self._following.get((topic.topic_id, data.partition_index))
                # Skip a partition that was added or updated after this request was sent.
                if state is not None and state.is_answered_by(number):
                    self._handle_outcome(state, state.process_partition_data(data, now_ms))
                    if data.records:
                        self._record_bytes(state, data.records)
        if self._session_id == _NO_SESSION:
            # The leader created no session: every request names all partitions.
            for state in self._following.values():
                state.forget()
        self._send()

    def _handle_outcome(self, state: FollowerState, outcome: Outcome) -> None:
        if outcome is Outcome.CONTINUE:
            state.delays = 0
            if state.has_changed and self._following.get(state.key) is state:
                self._updated[state] = None
        elif outcome is Outcome.OUT_OF_RANGE:
            self._delay(state)
            look_up_range(self._services, self.leader, state, then=lambda: self._resume(state))
        else:
            self._delay(state)

    def _record_bytes(self, state: FollowerState, records: object) -> None:
        if isinstance(records, bytes | bytearray | memoryview):
            self._services.record_bytes(state.partition, len(records))

    def _handle_failure(self, session_number: int, error: HeadwaterError) -> None:
        if session_number != self._session_number:
            return
        if self._failures % _LOG_EVERY == 0:
            _log.info(
                "Leader does not answer fetch requests: leader=%d error=%s", self.leader, error
            )
        self._drop_session()
        self._back_off()

    # Sessions, and partitions that have to wait.

    def _next_epoch(self) -> None:
        self._session_epoch = (
            1 if self._session_epoch == _LARGEST_EPOCH else self._session_epoch + 1
        )

    def _drop_session(self) -> None:
        """Start a new session with the next request and ignore responses in flight."""
        self._session_number += 1
        self._in_flight = 0
        self._session_id, self._session_epoch = _NO_SESSION, _FIRST_EPOCH
        self._updated.clear()
        self._forgotten.clear()
        for state in self._following.values():
            state.forget()

    def _leave_session(self, state: FollowerState) -> None:
        self._updated.pop(state, None)
        if state.is_in_session:
            state.forget()
            self._forgotten[state.key] = None

    def _delay(self, state: FollowerState) -> None:
        """Stop fetching a partition for a while; the delay grows with each one in a row."""
        self._leave_session(state)
        state.is_delayed = True
        state.retry_ms = self._services.clock.steady_ms() + self._delay_ms(state.delays)
        state.delays += 1
        self._delayed[state] = None
        if not self._wake.is_set or state.retry_ms < self._wake_ms:
            self._set_wake(state.retry_ms)

    def _set_wake(self, at_ms: int) -> None:
        self._wake_ms = at_ms
        self._wake.set(at_ms)

    def _end_delays(self) -> None:
        now_ms = self._services.clock.steady_ms()
        for state in list(self._delayed):
            if state.retry_ms <= now_ms:
                self._end_delay(state)
        if self._delayed:
            self._set_wake(min(each.retry_ms for each in self._delayed))
        self._send()

    def _resume(self, state: FollowerState) -> None:
        """The reason for the delay is resolved: fetch again."""
        if state in self._delayed:
            self._end_delay(state)
            self._send()

    def _end_delay(self, state: FollowerState) -> None:
        del self._delayed[state]
        state.is_delayed = False
        self._forgotten.pop(state.key, None)
        self._updated[state] = None

    def _back_off(self) -> None:
        self._backoff.set(self._services.clock.steady_ms() + self._delay_ms(self._failures))
        self._failures += 1

    def _delay_ms(self, times: int) -> int:
        """Exponential backoff up to `replica.fetch.backoff.ms`, at least 1 ms."""
        return max(1, min(_FIRST_DELAY_MS << min(times, 16), self._services.settings.backoff_ms))

"""One leader's partitions, fetched together: one request for all of them, again and again.

Partitions are named to the leader once, in a fetch session, and then only when there is news of
them (KIP-227); so an idle one costs nothing. What a reader would get wrong: a second request may
leave while the first waits at the leader, when a partition has just come here. It makes the leader
answer the first at once, so the newcomer need not wait for the end of a long one.
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
_SAID_EVERY: Final = 60
"""That a leader does not answer is said at first, and then about once a minute."""

_FIRST_DELAY_MS: Final = 50
"""A follower often hears of a new leader before that one does, so the first retry comes soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """`replica.fetch.*`, and how long an answer may take."""

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
    # Whether a partition may be fetched now, or has to wait because of its quota.
    may_fetch: Callable[[Partition], bool]
    # How many bytes came for a partition.
    note_bytes: Callable[[Partition, int], None]


class ReplicaFetcher:
    """See the module. Lives as long as something is followed of its leader."""

    def __init__(self, leader: NodeId, tools: ReplicaFetcherServices) -> None:
        self.leader = leader
        self._tools = tools
        self._following: dict[Key, FollowerState] = {}
        # What the next request names, and what it takes back.
        self._mentions: dict[FollowerState, None] = {}
        self._forgotten: dict[Key, None] = {}
        self._delayed: dict[FollowerState, None] = {}
        self._session_id = _NO_SESSION
        self._session_epoch = _FIRST_EPOCH
        self._in_flight = 0
        self._sent = 0
        # Answers to requests of an earlier session are for nobody.
        self._life = 0
        self._failures = 0
        self._backoff = WakeupTimer(tools.timer, self._send)
        self._wake = WakeupTimer(tools.timer, self._wake_delayed)
        self._wake_ms = 0
        self._soon = WakeupTimer(tools.timer, self._send)

    def __len__(self) -> int:
        return len(self._following)

    def follow(self, hosted: Partition) -> None:
        """Fetch it from now on, or in its new leader epoch."""
        following = FollowerState(hosted)
        known = self._following.get(following.key)
        if (
            known is not None
            and known.leader_epoch == following.leader_epoch
            and known.log is following.log
        ):
            return
        self.unfollow(hosted)
        try:
            following.begin(self._tools.clock.now_ms())
        except HeadwaterError as error:
            _log.warning("%s cannot be followed yet: %s", hosted.name, error)
        self._following[following.key] = following
        self._forgotten.pop(following.key, None)
        self._mentions[following] = None
        self._backoff.cancel()
        # Not now: a thousand may come within this turn.
        if not self._soon.is_set:
            self._soon.set(self._tools.clock.steady_ms())

    def unfollow(self, hosted: Partition) -> None:
        key = (hosted.topic.topic_id, hosted.name.partition)
        following = self._following.pop(key, None)
        if following is not None:
            self._leave_session(following)
            self._delayed.pop(following, None)

    def close(self) -> None:
        self._life += 1
        self._following.clear()
        for alarm in (self._backoff, self._wake, self._soon):
            alarm.cancel()

    # Requests.

    def _send(self) -> None:
        """Ask, unless an answer is awaited that will not be hurried by it."""
        is_urgent = any(not each.is_in_session for each in self._mentions)
        if self._in_flight >= (_MOST_IN_FLIGHT if is_urgent else 1) or self._backoff.is_set:
            return
        if not self._can_ask():
            return
        tools = self._tools
        self._sent += 1
        life, number, request = self._life, self._sent, self._request()
        self._in_flight += 1
        tools.inter_broker_client.ask(
            self.leader,
            request,
            purpose=Purpose.REPLICATION,
            timeout_ms=tools.settings.timeout_ms,
            then=lambda response: self._answered(life, number, response),
            otherwise=lambda error: self._failed(life, error),
        )

    def _can_ask(self) -> bool:
        """Whether there is anything to ask for. A session that names nothing is not worth one."""
        self._sort_out_throttled()
        if len(self._following) > len(self._delayed):
            # A second request can only go on with a session, not begin one.
            return self._session_id != _NO_SESSION or not self._in_flight
        if self._session_id != _NO_SESSION and not self._in_flight:
            self._drop_session()
        return False

    def _sort_out_throttled(self) -> None:
        for following in list(self._mentions):
            if not self._tools.may_fetch(following.hosted):
                self._delay(following)

    def _request(self) -> FetchRequest:
        tools, settings = self._tools, self._tools.settings
        if self._session_id == _NO_SESSION:
            self._forgotten.clear()
            named = [each for each in self._following.values() if not each.is_delayed]
        else:
            named = list(self._mentions)
        self._mentions.clear()
        by_topic: dict[TopicId, list[FetchPartition]] = {}
        for following in named:
            mention = following.mention(settings.max_bytes, self._sent)
            by_topic.setdefault(following.key[0], []).append(mention)
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=tools.node_id, replica_epoch=tools.broker_epoch()
            ),
            # The first one does not wait: others can join it only when there is a session.
            max_wait_ms=0 if self._session_id == _NO_SESSION else settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=tuple(
                FetchTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in by_topic.items()
            ),
            forgotten_topics_data=self._taken_back(),
        )
        if self._session_id != _NO_SESSION:
            self._next_epoch()
        return request

    def _taken_back(self) -> tuple[ForgottenTopic, ...]:
        by_topic: dict[TopicId, list[int]] = {}
        for topic_id, number in self._forgotten:
            by_topic.setdefault(topic_id, []).append(number)
        self._forgotten.clear()
        return tuple(
            ForgottenTopic(topic_id=topic_id, partitions=tuple(numbers))
            for topic_id, numbers in by_topic.items()
        )

    # Answers.

    def _answered(self, life: int, number: int, response: Message) -> None:
        assert isinstance(response, FetchResponse)
        if life != self._life:
            return
        self._in_flight -= 1
        if self._failures:
            _log.info("broker %d answers fetches again", self.leader)
        self._failures = 0
        if response.error_code:
            # The session is not known, or not at this point. Begin another at once, but no more
            # than once at once.
            is_fresh = self._session_id == _NO_SESSION
            _log.debug("broker %d refused a fetch: %s", self.leader, response.error_code.name)
            self._drop_session()
            if is_fresh:
                self._back_off()
            self._send()
            return
        if self._session_id == _NO_SESSION and response.session_id != _NO_SESSION:
            self._session_id, self._session_epoch = response.session_id, 1
        now_ms = self._tools.clock.now_ms()
        for topic in response.responses:
            for data in topic.partitions:
                following = self._following.get((topic.topic_id, data.partition_index))
                # One that was named after the request was sent is not what the answer is about.
                if following is not None and following.is_answered_by(number):
                    self._took(following, following.take(data, now_ms))
                    if data.records:
                        self._note(following, data.records)
        if self._session_id == _NO_SESSION:
            # The leader keeps no session for us: everything is named each time.
            for following in self._following.values():
                following.forget()
        self._send()

    def _took(self, following: FollowerState, outcome: Outcome) -> None:
        if outcome is Outcome.FETCH_ON:
            following.delays = 0
            if following.has_news and self._following.get(following.key) is following:
                self._mentions[following] = None
        elif outcome is Outcome.OUT_OF_RANGE:
            self._delay(following)
            look_up_range(self._tools, self.leader, following, then=lambda: self._resume(following))
        else:
            self._delay(following)

    def _note(self, following: FollowerState, records: object) -> None:
        if isinstance(records, bytes | bytearray | memoryview):
            self._tools.note_bytes(following.hosted, len(records))

    def _failed(self, life: int, error: HeadwaterError) -> None:
        if life != self._life:
            return
        if self._failures % _SAID_EVERY == 0:
            _log.info("broker %d does not answer fetches: %s", self.leader, error)
        self._drop_session()
        self._back_off()

    # Sessions, and partitions that have to wait.

    def _next_epoch(self) -> None:
        self._session_epoch = (
            1 if self._session_epoch == _LARGEST_EPOCH else self._session_epoch + 1
        )

    def _drop_session(self) -> None:
        """Begin anew with the next request; what is under way is for nobody."""
        self._life += 1
        self._in_flight = 0
        self._session_id, self._session_epoch = _NO_SESSION, _FIRST_EPOCH
        self._mentions.clear()
        self._forgotten.clear()
        for following in self._following.values():
            following.forget()

    def _leave_session(self, following: FollowerState) -> None:
        self._mentions.pop(following, None)
        if following.is_in_session:
            following.forget()
            self._forgotten[following.key] = None

    def _delay(self, following: FollowerState) -> None:
        """Leave it alone for a while, which grows while nothing comes of it."""
        self._leave_session(following)
        following.is_delayed = True
        following.retry_ms = self._tools.clock.steady_ms() + self._delay_ms(following.delays)
        following.delays += 1
        self._delayed[following] = None
        if not self._wake.is_set or following.retry_ms < self._wake_ms:
            self._set_wake(following.retry_ms)

    def _set_wake(self, at_ms: int) -> None:
        self._wake_ms = at_ms
        self._wake.set(at_ms)

    def _wake_delayed(self) -> None:
        now_ms = self._tools.clock.steady_ms()
        for following in list(self._delayed):
            if following.retry_ms <= now_ms:
                self._end_delay(following)
        if self._delayed:
            self._set_wake(min(each.retry_ms for each in self._delayed))
        self._send()

    def _resume(self, following: FollowerState) -> None:
        """What it was delayed for is done."""
        if following in self._delayed:
            self._end_delay(following)
            self._send()

    def _end_delay(self, following: FollowerState) -> None:
        del self._delayed[following]
        following.is_delayed = False
        self._forgotten.pop(following.key, None)
        self._mentions[following] = None

    def _back_off(self) -> None:
        self._backoff.set(self._tools.clock.steady_ms() + self._delay_ms(self._failures))
        self._failures += 1

    def _delay_ms(self, times: int) -> int:
        """`replica.fetch.backoff.ms` in the end, and never nought, which would be at once."""
        return max(1, min(_FIRST_DELAY_MS << min(times, 16), self._tools.settings.backoff_ms))

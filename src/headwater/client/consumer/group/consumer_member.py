"""A member of a consumer group (KIP-848), as a pure state machine.

It only sends ConsumerGroupHeartbeat.

The broker sends the target assignment in a heartbeat response. The member lets the application
revoke what it loses and add what it gains, and reports the owned partitions in the next heartbeat,
without delay.

Note: partitions come with topic ids. An unknown topic name delays the reconciliation, but not the
heartbeats.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headwater.client.consumer.group.member import (
    COORDINATOR_LOST,
    AssignmentChange,
    CoordinatorRequest,
    Identity,
    MemberSettings,
    Rebalance,
    RebalanceQueue,
)
from headwater.client.error_messages import meaning
from headwater.client.errors import KafkaError, error_for
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.protocol.older_versions import Message

_JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_LEAVE_FOR_A_WHILE_EPOCH: Final = -2


class ConsumerMember:
    """State machine of one member. The client chooses the member id once (KIP-1082)."""

    def __init__(
        self, settings: MemberSettings, member_id: str, server_assignor: str | None = None
    ) -> None:
        self._settings = settings
        self._member_id = member_id
        self._server_assignor = server_assignor
        self._topics: tuple[str, ...] = ()
        self._regex: str | None = None
        self._epoch = _JOIN_EPOCH
        self._queue = RebalanceQueue()
        self._names: dict[TopicId, str] = {}
        self._ids: dict[str, TopicId] = {}
        self._target: frozenset[tuple[TopicId, int]] | None = None
        self._acknowledged: ConsumerGroupHeartbeatRequest | None = None
        self._sent: ConsumerGroupHeartbeatRequest | None = None
        self._is_subscribed = False
        self._is_stale = False
        self._is_requesting = False
        self._interval_ms = settings.heartbeat_interval_ms
        self._polled_ms: int | None = None
        self._beat_ms = 0
        self._retry_at_ms = 0
        self.failure: KafkaError | None = None
        self.has_lost_coordinator = False

    @property
    def rebalance(self) -> Rebalance | None:
        return self._queue.first

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self._queue.owned

    @property
    def identity(self) -> Identity:
        return Identity(self._epoch, self._member_id, self._settings.group_instance_id)

    @property
    def unknown_topic_ids(self) -> frozenset[TopicId]:
        """Topics of the target assignment whose names are still unknown."""
        return frozenset(each for each, _ in self._target or () if each not in self._names)

    # Calls of the consumer.

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Subscribe to topic names, and to a pattern that the broker matches."""
        wanted = tuple(sorted(topics))
        if self.failure is not None:
            self._epoch = _JOIN_EPOCH
            self._acknowledged = None
            self.failure = None
        self._is_subscribed = True
        self._topics, self._regex = wanted, regex

    def clear_failure(self, now_ms: int) -> None:
        """Retry after the failure was raised, unless the static member was fenced."""
        if self.failure is not None and self.failure.code is not ErrorCode.FENCED_INSTANCE_ID:
            self.failure = None
            self._acknowledged = None
            self._retry_at_ms = now_ms + self._settings.retry_backoff_ms

    @property
    def is_stale(self) -> bool:
        """Whether it left the group because the application did not poll."""
        return self._is_stale

    def polled(self, now_ms: int) -> None:
        self._polled_ms = now_ms
        self._is_stale = False

    def names_seen(self, names: Mapping[TopicId, str]) -> None:
        """Learn topic names from metadata. A topic that was not found has no id."""
        known = {topic_id: name for topic_id, name in names.items() if topic_id != NO_TOPIC_ID}
        self._names.update(known)
        self._ids.update({name: topic_id for topic_id, name in known.items()})
        self._reconcile()

    def rebalance_done(self) -> None:
        self._queue.done()
        self._reconcile()

    # Calls of the heartbeat loop.

    def next_request(self, now_ms: int) -> CoordinatorRequest | None:
        if self._is_requesting or self.failure is not None or not self._is_subscribed:
            return None
        if self._polled_ms is None or now_ms < self._retry_at_ms or self._is_stale:
            return None
        self.has_lost_coordinator = False
        if now_ms >= self._polled_ms + self._settings.max_poll_interval_ms and self._epoch > 0:
            request = self.leave()
            self._fenced()
            self._is_stale = True
            self._is_requesting = True
            return request
        if self._epoch == _JOIN_EPOCH:
            # Revoke lost partitions first; otherwise they would be reported as owned.
            if self.rebalance is not None:
                return None
            return self._beat(self._all())
        changes = self._changes()
        if changes is not None or now_ms >= self._beat_ms:
            return self._beat(changes or self._plain())
        return None

    def wake_at_ms(self, now_ms: int) -> int:
        if self._retry_at_ms > now_ms:
            return self._retry_at_ms
        is_waiting = self._polled_ms is None or self._is_requesting or self._is_stale
        if is_waiting or self.failure is not None or self._epoch == _JOIN_EPOCH:
            # Waiting for the application or a response, which will trigger the next call.
            return now_ms + self._interval_ms
        assert self._polled_ms is not None
        return max(
            min(self._beat_ms, self._polled_ms + self._settings.max_poll_interval_ms), now_ms
        )

    def leave(self) -> CoordinatorRequest | None:
        """The leave request; a static member leaves temporarily."""
        if self._epoch <= 0:
            return None
        is_static = self._settings.group_instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=_LEAVE_FOR_A_WHILE_EPOCH if is_static else _LEAVE_EPOCH,
            instance_id=self._settings.group_instance_id,
        )
        self._epoch = _JOIN_EPOCH
        self._acknowledged = None
        return CoordinatorRequest(request, ConsumerGroupHeartbeatResponse)

    def _beat(self, request: ConsumerGroupHeartbeatRequest) -> CoordinatorRequest:
        self._is_requesting = True
        self._sent = request
        return CoordinatorRequest(request, ConsumerGroupHeartbeatResponse)

    def _plain(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._settings.group_instance_id,
        )

    def _all(self) -> ConsumerGroupHeartbeatRequest:
        """All fields, for the first heartbeat and the one after a failure."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._settings.group_instance_id,
            rack_id=self._settings.rack_id,
            rebalance_timeout_ms=self._settings.max_poll_interval_ms,
            subscribed_topic_names=self._topics,
            subscribed_topic_regex=self._regex,
            server_assignor=self._server_assignor,
            topic_partitions=self._owned_by_id(),
        )

    def _changes(self) -> ConsumerGroupHeartbeatRequest | None:
        """A heartbeat with the fields that the broker has not acknowledged; None if none."""
        known, now = self._acknowledged, self._all()
        if known is None:
            return now
        regex = now.subscribed_topic_regex
        topics_changed = known.subscribed_topic_names != now.subscribed_topic_names
        regex_changed = known.subscribed_topic_regex != regex
        owned_changed = known.topic_partitions != now.topic_partitions
        if not (topics_changed or regex_changed or owned_changed):
            return None
        return ConsumerGroupHeartbeatRequest(
            group_id=now.group_id,
            member_id=now.member_id,
            member_epoch=now.member_epoch,
            instance_id=now.instance_id,
            subscribed_topic_names=now.subscribed_topic_names if topics_changed else None,
            # An empty pattern removes the old one; null would keep it.
            subscribed_topic_regex=(regex or "") if regex_changed else None,
            topic_partitions=now.topic_partitions if owned_changed else None,
        )

    def _owned_by_id(self) -> tuple[TopicPartitions, ...]:
        by_id: dict[TopicId, list[int]] = {}
        for topic, partition in self.owned:
            by_id.setdefault(self._ids[topic], []).append(partition)
        return tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
            for topic_id, numbers in sorted(by_id.items())
        )

    # Responses.

    def handle_response(self, response: Message, now_ms: int) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._is_requesting = False
        if self._is_stale:
            return
        if response.error_code is not ErrorCode.NONE:
            self._refused(response.error_code, response.error_message, now_ms)
            return
        self._interval_ms = max(response.heartbeat_interval_ms, 1)
        self._beat_ms = now_ms + self._interval_ms
        self._remember_acknowledged()
        self._epoch = response.member_epoch
        self._member_id = response.member_id or self._member_id
        if response.assignment is not None:
            self._target = frozenset(
                (each.topic_id, partition)
                for each in response.assignment.topic_partitions
                for partition in each.partitions
            )
            self._reconcile()

    def handle_error(self, error: KafkaError, now_ms: int) -> None:
        self._is_requesting = False
        if not error.is_retriable:
            self.failure = error
            return
        # Whether the broker processed the heartbeat is unknown, so send all fields again.
        self._acknowledged = None
        self.has_lost_coordinator = True
        self._retry_at_ms = now_ms + self._settings.retry_backoff_ms

    def _remember_acknowledged(self) -> None:
        sent, known = self._sent, self._acknowledged
        assert sent is not None
        if known is None:
            self._acknowledged = sent
            return
        topics, regex = sent.subscribed_topic_names, sent.subscribed_topic_regex
        owned = sent.topic_partitions
        self._acknowledged = ConsumerGroupHeartbeatRequest(
            subscribed_topic_names=known.subscribed_topic_names if topics is None else topics,
            subscribed_topic_regex=(
                known.subscribed_topic_regex if regex is None else regex or None
            ),
            topic_partitions=known.topic_partitions if owned is None else owned,
        )

    def _refused(self, code: ErrorCode, message: str | None, now_ms: int) -> None:
        match code:
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                self._fenced()
            case _ if code in COORDINATOR_LOST:
                self._acknowledged = None
                self.has_lost_coordinator = True
                self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
            case _ if code.is_retriable:
                self._acknowledged = None
                self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
            case _:
                text = message or meaning(code)
                self.failure = error_for(code, f"group {self._settings.group_id}: {text}")

    def _fenced(self) -> None:
        """Rejoin with the same member id after being fenced."""
        self._epoch = _JOIN_EPOCH
        self._acknowledged = None
        self._target = None
        self._queue.mark_all_lost()

    def _reconcile(self) -> None:
        """Take one step towards the target assignment, unless one is in progress."""
        if self._target is None or self.rebalance is not None or self.unknown_topic_ids:
            return
        target = {
            TopicPartition(self._names[topic_id], number) for topic_id, number in self._target
        }
        owned = set(self.owned)
        self._target = None
        known = self._acknowledged
        if target == owned and known is not None and known.topic_partitions is not None:
            return
        self._queue.put(AssignmentChange.REVOKED, owned - target)
        self._queue.put(AssignmentChange.ASSIGNED, target - owned)

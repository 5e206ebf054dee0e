"""A member of a classic group, as a pure state machine.

It sends JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

    OUT -- Join --> JOINED -- leader: assign --> SYNCING -- Sync --> IN -- Heartbeat ...

Note: a rebalance starts with the application, not with JoinGroup: the listener must revoke first.
Under the eager protocol that is everything; under the cooperative one only topics that are no
longer subscribed. The rest is revoked after the assignment shows what is lost, and then the member
rejoins (KIP-429).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from headwater.client.assignors import Assignor, RebalanceProtocol
from headwater.client.assignors.racks import Racks
from headwater.client.consumer.group.classic_leader import ClassicLeader
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
from headwater.common.exceptions import ProtocolError
from headwater.common.ids import TopicPartition
from headwater.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    named_partitions,
    partitions_of,
    read_assignment,
    write_subscription,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headwater.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from headwater.protocol.older_versions import Message

_NO_GENERATION: Final = -1
# JoinGroup waits for the slowest member; the response gets this much longer.
_JOIN_SLACK_MS: Final = 5_000


class Stage(Enum):
    """The state of the membership."""

    OUT = "out"
    JOINED = "joined"
    SYNCING = "syncing"
    IN = "in"
    STALE = "stale"
    """Left the group because the application did not poll for `max.poll.interval.ms`."""


class ClassicMember:
    """State machine of one member. Time and responses are inputs."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        self._settings = settings
        self._assignors = {each.name: each for each in assignors}
        common = frozenset.intersection(*(each.protocols for each in assignors))
        self._is_cooperative = max(common) is RebalanceProtocol.COOPERATIVE
        self._topics: tuple[str, ...] = ()
        self._queue = RebalanceQueue()
        self._last_assignment: tuple[TopicPartition, ...] = ()
        self._stage = Stage.OUT
        self._member_id = ""
        self._generation_id = _NO_GENERATION
        self._protocol_name = ""
        self._leader: ClassicLeader | None = None
        self._assignments: tuple[SyncGroupRequestAssignment, ...] = ()
        self._must_join = False
        self._is_prepared = False
        self._is_requesting = False
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
    def stage(self) -> Stage:
        return self._stage

    @property
    def identity(self) -> Identity:
        instance_id = self._settings.group_instance_id
        return Identity(self._generation_id, self._member_id, instance_id)

    @property
    def topics_to_assign(self) -> frozenset[str] | None:
        """The topics whose partition counts a leader needs to assign; None if not needed."""
        if self._stage is not Stage.JOINED:
            return None
        assert self._leader is not None
        return self._leader.topics

    # Calls of the consumer.

    def subscribe(self, topics: Iterable[str]) -> None:
        wanted = tuple(sorted(topics))
        if wanted != self._topics or self.failure is not None:
            self._topics = wanted
            self._must_join = True
            self.failure = None

    def clear_failure(self, now_ms: int) -> None:
        """Retry after the failure was raised, unless the static member was fenced."""
        if self.failure is not None and self.failure.code is not ErrorCode.FENCED_INSTANCE_ID:
            self.failure = None
            self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
            self._must_join = self._must_join or self._stage is not Stage.IN

    @property
    def is_stale(self) -> bool:
        """Whether it left the group because the application did not poll."""
        return self._stage is Stage.STALE

    def polled(self, now_ms: int) -> None:
        self._polled_ms = now_ms
        if self._stage is Stage.STALE:
            self._stage = Stage.OUT
            self._must_join = True

    def partition_counts_seen(self, counts: Mapping[str, int]) -> None:
        """Make a leader rejoin if partition counts have changed."""
        if self._leader is not None and self._leader.is_outdated(counts):
            self._leader = None
            self._must_join = True

    def rebalance_done(self) -> None:
        self._queue.done()

    def assign(self, partition_counts: Mapping[str, int], racks: Racks | None = None) -> None:
        """Compute the assignment from the partition counts of `topics_to_assign`."""
        assert self._leader is not None
        self._assignments = self._leader.assign(partition_counts, racks)
        self._stage = Stage.SYNCING

    # Calls of the heartbeat loop.

    def next_request(self, now_ms: int) -> CoordinatorRequest | None:
        """The request to send now, if any. At most one is in flight."""
        if self._is_requesting or self.failure is not None or self._polled_ms is None:
            return None
        if now_ms < self._retry_at_ms or self._stage is Stage.STALE:
            return None
        request = self._choose(now_ms)
        self._is_requesting = request is not None
        if request is not None:
            self.has_lost_coordinator = False
        return request

    def _choose(self, now_ms: int) -> CoordinatorRequest | None:
        assert self._polled_ms is not None
        if now_ms >= self._polled_ms + self._settings.max_poll_interval_ms and self._member_id:
            return self._leave_as_stale()
        if self._stage is Stage.IN and now_ms >= self._beat_ms:
            return self._heartbeat()
        if self.rebalance is not None:
            return None
        if self._must_join:
            return self._prepare_or_join()
        return self._sync() if self._stage is Stage.SYNCING else None

    def wake_at_ms(self, now_ms: int) -> int:
        """When to call `next_request` again if nothing else happens."""
        if self._retry_at_ms > now_ms:
            return self._retry_at_ms
        is_waiting = self._polled_ms is None or self._is_requesting or self._stage is Stage.STALE
        if is_waiting or self.failure is not None or not self._member_id:
            # Waiting for the application or a response, which will trigger the next call.
            return now_ms + self._settings.heartbeat_interval_ms
        assert self._polled_ms is not None
        leaves_at_ms = self._polled_ms + self._settings.max_poll_interval_ms
        return min(leaves_at_ms, self._beat_ms) if self._stage is Stage.IN else leaves_at_ms

    def leave(self) -> CoordinatorRequest | None:
        """The LeaveGroup request; None for a static member, which may return."""
        is_known = bool(self._member_id) and self._settings.group_instance_id is None
        member_id, self._member_id = self._member_id, ""
        self._generation_id = _NO_GENERATION
        self._stage = Stage.OUT
        self._leader = None
        return self._leave_request(member_id, "the consumer is being closed") if is_known else None

    def _leave_request(self, member_id: str, reason: str) -> CoordinatorRequest:
        member = MemberIdentity(member_id=member_id, reason=reason)
        request = LeaveGroupRequest(group_id=self._settings.group_id, members=(member,))
        return CoordinatorRequest(request, LeaveGroupResponse)

    def _leave_as_stale(self) -> CoordinatorRequest | None:
        request = self.leave()
        self._lose_membership(forgets_member=True)
        self._stage = Stage.STALE
        return request

    def _prepare_or_join(self) -> CoordinatorRequest | None:
        if not self._is_prepared:
            self._is_prepared = True
            if self._generation_id == _NO_GENERATION:
                self._queue.put(AssignmentChange.LOST, self.owned)
            elif not self._is_cooperative:
                self._queue.put(AssignmentChange.REVOKED, self.owned)
            else:
                unwanted = [each for each in self.owned if each.topic not in self._topics]
                self._queue.put(AssignmentChange.REVOKED, unwanted)
            if self.rebalance is not None:
                return None
        return self._join()

    def _join(self) -> CoordinatorRequest:
        self._must_join = False
        self._stage = Stage.OUT
        settings = self._settings
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(
                JoinGroupRequestProtocol(name=each.name, metadata=self._subscription(each))
                for each in self._assignors.values()
            ),
        )
        limit_ms = settings.max_poll_interval_ms + _JOIN_SLACK_MS
        return CoordinatorRequest(request, JoinGroupResponse, limit_ms)

    def _subscription(self, assignor: Assignor) -> bytes:
        return write_subscription(
            Subscription(
                topics=self._topics,
                user_data=assignor.user_data(self._last_assignment, self._generation_id),
                owned_partitions=named_partitions(self.owned),
                generation_id=self._generation_id,
                rack_id=self._settings.rack_id,
            )
        )

    def _sync(self) -> CoordinatorRequest:
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol_name,
            assignments=self._assignments,
        )
        limit_ms = self._settings.max_poll_interval_ms + _JOIN_SLACK_MS
        return CoordinatorRequest(request, SyncGroupResponse, limit_ms)

    def _heartbeat(self) -> CoordinatorRequest:
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        return CoordinatorRequest(request, HeartbeatResponse, self._settings.session_timeout_ms)

    # Responses.

    def handle_response(self, response: Message, now_ms: int) -> None:
        self._is_requesting = False
        match response:
            case JoinGroupResponse():
                self._joined(response, now_ms)
            case SyncGroupResponse():
                self._synced(response, now_ms)
            case HeartbeatResponse():
                self._beat_ms = now_ms + self._settings.heartbeat_interval_ms
                self._refused(response.error_code, now_ms)
            case _:
                # The result of LeaveGroup does not matter.
                pass

    def handle_error(self, error: KafkaError, now_ms: int) -> None:
        """No response arrived. Repeat the request, perhaps to another coordinator."""
        self._is_requesting = False
        if not error.is_retriable:
            self.failure = error
            return
        self.has_lost_coordinator = True
        self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
        if self._stage is not Stage.IN:
            self._must_join = True

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        if response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self._must_join = True
            return
        if response.error_code is not ErrorCode.NONE:
            self._must_join = True
            self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
            self._refused(response.error_code, now_ms)
            return
        if response.protocol_name not in self._assignors:
            self.failure = error_for(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group chose assignor {response.protocol_name!r}, which is not configured",
            )
            return
        self._member_id = response.member_id
        self._generation_id = response.generation_id
        self._protocol_name = response.protocol_name or ""
        self._is_prepared = False
        self._assignments = ()
        self._leader = None
        self._stage = Stage.SYNCING
        if response.leader == response.member_id and not response.skip_assignment:
            self._leader = ClassicLeader(response.members, self._assignors[self._protocol_name])
            self._stage = Stage.JOINED

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        if response.error_code is not ErrorCode.NONE:
            self._must_join = True
            self._refused(response.error_code, now_ms)
            return
        try:
            read = read_assignment(response.assignment)
        except ProtocolError as error:
            self.failure = error_for(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"malformed assignment: {error}"
            )
            return
        self._stage = Stage.IN
        self._beat_ms = now_ms + self._settings.heartbeat_interval_ms
        self._take(partitions_of(read.assigned_partitions))

    def _take(self, assigned: list[TopicPartition]) -> None:
        self._last_assignment = tuple(assigned)
        # An eager member owns nothing here: it revoked everything before it joined.
        lost = [each for each in self.owned if each not in set(assigned)]
        if lost:
            self._queue.put(AssignmentChange.REVOKED, lost)
            self._must_join = True
        self._queue.put(AssignmentChange.ASSIGNED, set(assigned).difference(self.owned))

    def _refused(self, code: ErrorCode, now_ms: int) -> None:
        """Handle an error code of any request."""
        match code:
            case ErrorCode.NONE:
                pass
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._must_join = True
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose_membership(forgets_member=True)
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose_membership(forgets_member=False)
            case _ if code in COORDINATOR_LOST:
                self.has_lost_coordinator = True
                self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
            case _ if code.is_retriable:
                self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
            case _:
                self.failure = error_for(code, f"group {self._settings.group_id}: {meaning(code)}")

    def _lose_membership(self, *, forgets_member: bool) -> None:
        if forgets_member:
            self._member_id = ""
        self._generation_id = _NO_GENERATION
        self._stage = Stage.OUT
        self._is_prepared = False
        self._leader = None
        self._must_join = True
        self._queue.mark_all_lost()

"""A member of a classic group: join, sync, heartbeat, leave. Pure: time and answers come in.

    OUT -- Join --> JOINED -- leader: assign --> SYNCING -- Sync --> IN -- Heartbeat ...

What a reader would get wrong: a rebalance does not begin with a JoinGroup but with the application,
which must first let go of what it may lose. Under the eager protocol that is everything, under the
cooperative one only what it no longer subscribes to; the rest is let go of after the next
assignment has shown what is lost, and then the group rebalances once more (KIP-429).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from headwater.client.assignors import Assignor, RebalanceProtocol
from headwater.client.assignors.racks import Racks
from headwater.client.consumer.group.classic_leader import ClassicLeader
from headwater.client.consumer.group.member import (
    COORDINATOR_GONE,
    Ask,
    AssignmentChange,
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
# A join waits for the slowest member; this much longer is waited for the answer itself.
_JOIN_SLACK_MS: Final = 5_000


class Stage(Enum):
    """How far a member is."""

    OUT = "out"
    JOINED = "joined"
    SYNCING = "syncing"
    IN = "in"
    ASLEEP = "asleep"
    """The application has not polled for `max.poll.interval.ms`; it must do so first."""


class ClassicMember:
    """See the module."""

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
        self._is_asking = False
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
        """Of a leader that must assign now: whose partition counts it needs."""
        if self._stage is not Stage.JOINED:
            return None
        assert self._leader is not None
        return self._leader.topics

    # What the consumer tells.

    def subscribe(self, topics: Iterable[str]) -> None:
        wanted = tuple(sorted(topics))
        if wanted != self._topics or self.failure is not None:
            self._topics = wanted
            self._must_join = True
            self.failure = None

    def forgive(self, now_ms: int) -> None:
        """The application has heard of the failure; try again, unless another has our place."""
        if self.failure is not None and self.failure.code is not ErrorCode.FENCED_INSTANCE_ID:
            self.failure = None
            self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
            self._must_join = self._must_join or self._stage is not Stage.IN

    @property
    def is_asleep(self) -> bool:
        """Whether it has left the group because nobody polled."""
        return self._stage is Stage.ASLEEP

    def polled(self, now_ms: int) -> None:
        self._polled_ms = now_ms
        if self._stage is Stage.ASLEEP:
            self._stage = Stage.OUT
            self._must_join = True

    def partition_counts_seen(self, counts: Mapping[str, int]) -> None:
        """Of a leader: what it assigned has grown, or shrunk, so it must assign anew."""
        if self._leader is not None and self._leader.is_outdated(counts):
            self._leader = None
            self._must_join = True

    def rebalance_done(self) -> None:
        self._queue.done()

    def assign(self, partition_counts: Mapping[str, int], racks: Racks | None = None) -> None:
        """The leader's work. Counts of the topics in `topics_to_assign` that exist."""
        assert self._leader is not None
        self._assignments = self._leader.assign(partition_counts, racks)
        self._stage = Stage.SYNCING

    # What the shell asks.

    def next_ask(self, now_ms: int) -> Ask | None:
        """What to send now, if anything. One request is under way at a time."""
        if self._is_asking or self.failure is not None or self._polled_ms is None:
            return None
        if now_ms < self._retry_at_ms or self._stage is Stage.ASLEEP:
            return None
        ask = self._choose(now_ms)
        self._is_asking = ask is not None
        if ask is not None:
            self.has_lost_coordinator = False
        return ask

    def _choose(self, now_ms: int) -> Ask | None:
        assert self._polled_ms is not None
        if now_ms >= self._polled_ms + self._settings.max_poll_interval_ms and self._member_id:
            return self._fall_asleep()
        if self._stage is Stage.IN and now_ms >= self._beat_ms:
            return self._heartbeat()
        if self.rebalance is not None:
            return None
        if self._must_join:
            return self._prepare_or_join()
        return self._sync() if self._stage is Stage.SYNCING else None

    def wake_at_ms(self, now_ms: int) -> int:
        """When to ask `next_ask` again, if nothing else happens."""
        if self._retry_at_ms > now_ms:
            return self._retry_at_ms
        is_waiting = self._polled_ms is None or self._is_asking or self._stage is Stage.ASLEEP
        if is_waiting or self.failure is not None or not self._member_id:
            # For the application, or for an answer; whoever has news tells.
            return now_ms + self._settings.heartbeat_interval_ms
        assert self._polled_ms is not None
        leaves_at_ms = self._polled_ms + self._settings.max_poll_interval_ms
        return min(leaves_at_ms, self._beat_ms) if self._stage is Stage.IN else leaves_at_ms

    def leave(self) -> Ask | None:
        """The last word. A static member says none: it may come back before its session ends."""
        is_known = bool(self._member_id) and self._settings.group_instance_id is None
        member_id, self._member_id = self._member_id, ""
        self._generation_id = _NO_GENERATION
        self._stage = Stage.OUT
        self._leader = None
        return self._leave_ask(member_id, "the consumer is being closed") if is_known else None

    def _leave_ask(self, member_id: str, reason: str) -> Ask:
        member = MemberIdentity(member_id=member_id, reason=reason)
        request = LeaveGroupRequest(group_id=self._settings.group_id, members=(member,))
        return Ask(request, LeaveGroupResponse)

    def _fall_asleep(self) -> Ask | None:
        ask = self.leave()
        self._lose_membership(forgets_member=True)
        self._stage = Stage.ASLEEP
        return ask

    def _prepare_or_join(self) -> Ask | None:
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

    def _join(self) -> Ask:
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
        return Ask(request, JoinGroupResponse, limit_ms)

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

    def _sync(self) -> Ask:
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
        return Ask(request, SyncGroupResponse, limit_ms)

    def _heartbeat(self) -> Ask:
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        return Ask(request, HeartbeatResponse, self._settings.session_timeout_ms)

    # What came of it.

    def answered(self, response: Message, now_ms: int) -> None:
        self._is_asking = False
        match response:
            case JoinGroupResponse():
                self._joined(response, now_ms)
            case SyncGroupResponse():
                self._synced(response, now_ms)
            case HeartbeatResponse():
                self._beat_ms = now_ms + self._settings.heartbeat_interval_ms
                self._refused(response.error_code, now_ms)
            case _:
                # Of leaving it does not matter how it went.
                pass

    def failed(self, error: KafkaError, now_ms: int) -> None:
        """There is no answer. Whatever was asked is asked again, perhaps of another node."""
        self._is_asking = False
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
                f"the group has chosen the assignor {response.protocol_name!r}",
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
            self.failure = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"an assignment: {error}")
            return
        self._stage = Stage.IN
        self._beat_ms = now_ms + self._settings.heartbeat_interval_ms
        self._take(partitions_of(read.assigned_partitions))

    def _take(self, assigned: list[TopicPartition]) -> None:
        self._last_assignment = tuple(assigned)
        # An eager member owns nothing here: it gave up everything before it joined.
        lost = [each for each in self.owned if each not in set(assigned)]
        if lost:
            self._queue.put(AssignmentChange.REVOKED, lost)
            self._must_join = True
        self._queue.put(AssignmentChange.ASSIGNED, set(assigned).difference(self.owned))

    def _refused(self, code: ErrorCode, now_ms: int) -> None:
        """What an error means for this member, whichever request it answers."""
        match code:
            case ErrorCode.NONE:
                pass
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._must_join = True
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose_membership(forgets_member=True)
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose_membership(forgets_member=False)
            case _ if code in COORDINATOR_GONE:
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
        self._queue.lose_all()

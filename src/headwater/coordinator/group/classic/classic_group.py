"""A group whose members compute the assignment: Kafka's classic protocol.

Pure: requests and timers in, effects out. Most of the state is soft; records are written only when
the group is Stable or Empty. Replaying a record gives a group in one of these states, live and
while loading.

Note: the exception is a group that already prepares its next generation. It knows more than the
record of the last one, and only notes that it was written.
"""

from collections.abc import Sequence
from typing import assert_never

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TIMESTAMP
from headwater.common.ports import Random
from headwater.coordinator.group.classic import classic_responses as responses
from headwater.coordinator.group.classic.classic_group_member import (
    SESSION_TIMER,
    ClassicGroupMember,
)
from headwater.coordinator.group.classic.classic_group_state import ClassicGroupState
from headwater.coordinator.group.classic.classic_rebalance import (
    JOIN_TIMER,
    SYNC_TIMER,
    ClassicLimits,
    ClassicRebalance,
)
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.coordinator.group.classic.classic_subscribed_topics import CONSUMER_PROTOCOL_TYPE
from headwater.coordinator.group.classic.join_group import join
from headwater.coordinator.group.classic.sync_heartbeat_leave import (
    expire_session,
    heartbeat,
    leave,
    sync,
)
from headwater.coordinator.group.group import GroupType
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Effect,
    Reply,
    RequestEvent,
    TimerFired,
)
from headwater.protocol.messages.describe_groups import DescribedGroup
from headwater.protocol.messages.heartbeat import HeartbeatRequest
from headwater.protocol.messages.join_group import JoinGroupRequest
from headwater.protocol.messages.leave_group import LeaveGroupRequest
from headwater.protocol.messages.sync_group import SyncGroupRequest


class ClassicGroup:
    """One group; implements `headwater.coordinator.group.group.Group`."""

    __slots__ = ("_has_leader", "_is_written", "_rebalance", "_rng")

    def __init__(self, group_id: str, limits: ClassicLimits, rng: Random) -> None:
        self._rebalance = ClassicRebalance(group_id=group_id, limits=limits)
        self._rng = rng
        self._is_written = False
        self._has_leader = True

    def decide(self, event: RequestEvent | TimerFired) -> list[Effect]:
        match event:
            case RequestEvent():
                return self._on_request(event)
            case TimerFired():
                return self.on_timer(event)
            case _:
                assert_never(event)

    def replay(self, record: GroupMetadataRecord) -> None:
        if record.value is None:
            self._rebalance.state = ClassicGroupState.DEAD
            return
        self._is_written = True
        self._has_leader = not record.value.members or record.value.leader is not None
        if self._rebalance.state is not ClassicGroupState.PREPARING_REBALANCE:
            self._rebalance.adopt(record.value)

    def loaded(self, now_ms: int) -> list[Effect]:
        """After replay: restart the sessions of all members (GR-17)."""
        # If the limit was lowered meanwhile, the last members to rejoin are rejected.
        is_too_large = len(self._rebalance.members) > self._rebalance.limits.max_size
        # A group that was downgraded still needs a rebalance (see `group_downgrade`).
        return self.resume(now_ms, rebalances=is_too_large or not self._has_leader)

    def take_over(
        self, members: Sequence[ClassicGroupMember], *, generation: int, now_ms: int
    ) -> GroupMetadataRecord:
        """Become a stable group of consumers with the members of another group type.

        Returns the record, which still has to be appended.
        """
        core = self._rebalance
        for member in members:
            core.members.add(member)
        core.protocol_type = CONSUMER_PROTOCOL_TYPE
        core.protocol = core.members.choose_protocol()
        core.generation = generation
        core.state_since_ms = now_ms
        record = core.record({member.member_id: member.assignment for member in members})
        assert record.value is not None
        core.adopt(record.value)
        return record

    def resume(self, now_ms: int, *, rebalances: bool) -> list[Effect]:
        """Restart the sessions of all members and start a rebalance if requested."""
        core = self._rebalance
        effects = [e for member in core.members.all() for e in core.expect(member, now_ms)]
        return effects + core.begin(now_ms) if rebalances else effects

    def close(self, error: ErrorCode) -> list[Effect]:
        """Fail the waiting requests: this broker is not the coordinator any more (GR-17)."""
        effects: list[Effect] = []
        for member in self._rebalance.members.all():
            if member.joining is not None:
                effects.append(
                    responses.join_error(member.joining, error, member_id=member.member_id)
                )
                member.joining = None
            if member.syncing is not None:
                effects.append(responses.sync_error(member.syncing, error))
                member.syncing = None
        self._rebalance.state = ClassicGroupState.DEAD
        return effects

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        if self._rebalance.state is ClassicGroupState.DEAD:
            return []
        match timer.key[2:]:
            case (kind, str(member_id)) if kind == SESSION_TIMER:
                return expire_session(self._rebalance, member_id, timer.now_ms)
            case (kind,) if kind == JOIN_TIMER:
                return self._rebalance.on_join_timer(timer.now_ms)
            case (kind,) if kind == SYNC_TIMER:
                return self._rebalance.on_sync_timer(timer.now_ms)
            case _:
                return []

    def describe(self) -> DescribedGroup:
        """Describe the group (GR-16); only a stable group has a protocol."""
        core = self._rebalance
        protocol = core.protocol if core.state is ClassicGroupState.STABLE else None
        return DescribedGroup(
            group_id=core.group_id,
            group_state=core.state.value,
            protocol_type=core.protocol_type or "",
            protocol_data=protocol or "",
            members=tuple(responses.described(m, protocol) for m in core.members.all()),
        )

    @property
    def group_id(self) -> str:
        return self._rebalance.group_id

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def is_completing_rebalance(self) -> bool:
        """Whether the members have joined and the next record has their assignments."""
        return self._rebalance.state is ClassicGroupState.COMPLETING_REBALANCE

    @property
    def state_name(self) -> str:
        return self._rebalance.state.value

    @property
    def generation(self) -> int:
        return self._rebalance.generation

    @property
    def members(self) -> tuple[ClassicGroupMember, ...]:
        """For conversion to another group type."""
        return self._rebalance.members.all()

    @property
    def protocol_type(self) -> str:
        return self._rebalance.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return (
            self._rebalance.state is ClassicGroupState.EMPTY and not self._rebalance.members.pending
        )

    def is_subscribed_to(self, topic: str) -> bool:
        if self._rebalance.topics is None:
            return self._rebalance.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self._rebalance.topics

    def validate_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,  # noqa: ARG002 - only the consumer protocol needs it
    ) -> ErrorCode | None:
        """Check a commit; without a generation it needs an empty group (GR-11)."""
        core = self._rebalance
        if core.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        is_empty = core.state is ClassicGroupState.EMPTY
        if generation_or_epoch < 0 and is_empty:
            return None
        if generation_or_epoch >= 0 or member_id or group_instance_id is not None:
            error = core.members.check_member(member_id, group_instance_id)
            if error:
                return error
            if generation_or_epoch != core.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and core.state is ClassicGroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    def validate_fetch(
        self,
        *,
        member_id: str | None,  # noqa: ARG002 - not restricted to members
        member_epoch: int,  # noqa: ARG002
    ) -> ErrorCode | None:
        return self._check_dead()

    def validate_offset_delete(self) -> ErrorCode | None:
        """Members of other protocol types do not reveal their topics."""
        empty_or_readable = (
            self._rebalance.state is ClassicGroupState.EMPTY
            or self._rebalance.protocol_type == CONSUMER_PROTOCOL_TYPE
        )
        return self._check_dead() or (None if empty_or_readable else ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> ErrorCode | None:
        empty = self._rebalance.state is ClassicGroupState.EMPTY
        return self._check_dead() or (None if empty else ErrorCode.NON_EMPTY_GROUP)

    def retention_begins_ms(self, commit_timestamp: int) -> int | None:
        core = self._rebalance
        if core.protocol_type is None:
            return commit_timestamp
        if core.state is ClassicGroupState.EMPTY:
            since_ms = core.state_since_ms
            return commit_timestamp if since_ms == NO_TIMESTAMP else since_ms
        if core.state is ClassicGroupState.STABLE and core.topics is not None:
            return commit_timestamp
        return None

    def offsets_committed(self, member_id: str, now_ms: int) -> list[Effect]:
        member = self._rebalance.members.get(member_id)
        living = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)
        if member is None or self._rebalance.state not in living:
            return []
        return self._rebalance.expect(member, now_ms)

    def tombstones(self) -> tuple[GroupMetadataRecord, ...]:
        return (GroupMetadataRecord(GroupMetadataKey(group=self.group_id), None),)

    def _check_dead(self) -> ErrorCode | None:
        is_dead = self._rebalance.state is ClassicGroupState.DEAD
        return ErrorCode.GROUP_ID_NOT_FOUND if is_dead else None

    def _on_request(self, event: RequestEvent) -> list[Effect]:
        request = event.request
        assert isinstance(request, ClassicRequest)
        if self._rebalance.state is ClassicGroupState.DEAD:
            return [responses.error_response(event, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        match request:
            case JoinGroupRequest():
                is_new = not self._is_written and self._rebalance.state is ClassicGroupState.EMPTY
                effects = join(self._rebalance, event, request, self._rng)
                return self._append_new(effects, event.now_ms) if is_new else effects
            case SyncGroupRequest():
                return sync(self._rebalance, event, request)
            case HeartbeatRequest():
                return heartbeat(self._rebalance, event, request)
            case LeaveGroupRequest():
                return leave(self._rebalance, event, request)
            case _:
                assert_never(request)

    def _append_new(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        """Append a new group before replying, so that ListGroups has it."""
        value = GroupMetadataValue(current_state_timestamp=now_ms)
        record = GroupMetadataRecord(GroupMetadataKey(group=self.group_id), value)
        replies = [effect for effect in effects if isinstance(effect, Reply)]
        timers = [effect for effect in effects if not isinstance(effect, Reply)]
        return [*timers, Append((record,)), *replies]

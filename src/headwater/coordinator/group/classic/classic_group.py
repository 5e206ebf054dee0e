"""A group whose members share out the work among themselves: Kafka's classic protocol.

Pure: requests and timers in, effects out. Most of what a group knows is soft, and moves as members
speak; the log only hears of settled groups, those that are Stable or Empty. So replaying a record
makes a group that is settled, at load and live alike, with one exception that a reader must know:
a group which already prepares its next generation knows more than the record of the last one, and
only takes note that it has been written.
"""

from collections.abc import Sequence
from typing import assert_never

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TIMESTAMP
from headwater.common.ports import Random
from headwater.coordinator.group.classic import classic_responses as answers
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
    Asked,
    Effect,
    Reply,
    TimerFired,
)
from headwater.protocol.messages.describe_groups import DescribedGroup
from headwater.protocol.messages.heartbeat import HeartbeatRequest
from headwater.protocol.messages.join_group import JoinGroupRequest
from headwater.protocol.messages.leave_group import LeaveGroupRequest
from headwater.protocol.messages.sync_group import SyncGroupRequest


class ClassicGroup:
    """One group. It is a `headwater.coordinator.group.group.Group`."""

    __slots__ = ("_core", "_is_led", "_is_written", "_rng")

    def __init__(self, group_id: str, limits: ClassicLimits, rng: Random) -> None:
        self._core = ClassicRebalance(group_id=group_id, limits=limits)
        self._rng = rng
        self._is_written = False
        self._is_led = True

    def decide(self, event: Asked | TimerFired) -> list[Effect]:
        match event:
            case Asked():
                return self._on_request(event)
            case TimerFired():
                return self.on_timer(event)
            case _:
                assert_never(event)

    def replay(self, record: GroupMetadataRecord) -> None:
        if record.value is None:
            self._core.state = ClassicGroupState.DEAD
            return
        self._is_written = True
        self._is_led = not record.value.members or record.value.leader is not None
        if self._core.state is not ClassicGroupState.PREPARING_REBALANCE:
            self._core.adopt(record.value)

    def loaded(self, now_ms: int) -> list[Effect]:
        """All records are replayed: members have a session to be heard of again (GR-17)."""
        # If the limit was lowered meanwhile, those that join last will not get in.
        is_too_large = len(self._core.roster) > self._core.limits.max_size
        # One that has become classic again was to be shared out anew (see `group_downgrade`).
        return self.resume(now_ms, rebalances=is_too_large or not self._is_led)

    def take_over(
        self, members: Sequence[ClassicGroupMember], *, generation: int, now_ms: int
    ) -> GroupMetadataRecord:
        """Be a settled group of consumers with these members, who came from one of another type.

        Returns the record of it, which is still to be written.
        """
        core = self._core
        for member in members:
            core.roster.add(member)
        core.protocol_type = CONSUMER_PROTOCOL_TYPE
        core.protocol = core.roster.choose_protocol()
        core.generation = generation
        core.state_since_ms = now_ms
        record = core.record({member.member_id: member.assignment for member in members})
        assert record.value is not None
        core.adopt(record.value)
        return record

    def resume(self, now_ms: int, *, rebalances: bool) -> list[Effect]:
        """Expect to hear of all members, and have them join again, if there is a reason."""
        core = self._core
        effects = [e for member in core.roster.all() for e in core.expect(member, now_ms)]
        return effects + core.begin(now_ms) if rebalances else effects

    def close(self, error: ErrorCode) -> list[Effect]:
        """This coordinator no longer has the group: answer whoever waits (GR-17)."""
        effects: list[Effect] = []
        for member in self._core.roster.all():
            if member.joining is not None:
                effects.append(
                    answers.join_error(member.joining, error, member_id=member.member_id)
                )
                member.joining = None
            if member.syncing is not None:
                effects.append(answers.sync_error(member.syncing, error))
                member.syncing = None
        self._core.state = ClassicGroupState.DEAD
        return effects

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        if self._core.state is ClassicGroupState.DEAD:
            return []
        match timer.key[2:]:
            case (kind, str(member_id)) if kind == SESSION_TIMER:
                return expire_session(self._core, member_id, timer.now_ms)
            case (kind,) if kind == JOIN_TIMER:
                return self._core.on_join_timer(timer.now_ms)
            case (kind,) if kind == SYNC_TIMER:
                return self._core.on_sync_timer(timer.now_ms)
            case _:
                return []

    def describe(self) -> DescribedGroup:
        """For DescribeGroups (GR-16); what is unsettled has no protocol to speak of."""
        core = self._core
        protocol = core.protocol if core.state is ClassicGroupState.STABLE else None
        return DescribedGroup(
            group_id=core.group_id,
            group_state=core.state.value,
            protocol_type=core.protocol_type or "",
            protocol_data=protocol or "",
            members=tuple(answers.described(m, protocol) for m in core.roster.all()),
        )

    @property
    def group_id(self) -> str:
        return self._core.group_id

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self._core.state.value

    @property
    def generation(self) -> int:
        return self._core.generation

    @property
    def members(self) -> tuple[ClassicGroupMember, ...]:
        """For whoever turns the group into one of another type."""
        return self._core.roster.all()

    @property
    def protocol_type(self) -> str:
        return self._core.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self._core.state is ClassicGroupState.EMPTY and not self._core.roster.pending

    def is_subscribed_to(self, topic: str) -> bool:
        if self._core.topics is None:
            return self._core.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self._core.topics

    def validate_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,  # noqa: ARG002 - only the consumer protocol asks for it
    ) -> ErrorCode | None:
        """Whoever commits without a generation is no member, and must not meet any (GR-11)."""
        core = self._core
        if core.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        is_empty = core.state is ClassicGroupState.EMPTY
        if generation_or_epoch < 0 and is_empty:
            return None
        if generation_or_epoch >= 0 or member_id or group_instance_id is not None:
            error = core.roster.refusal(member_id, group_instance_id)
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
        member_id: str | None,  # noqa: ARG002 - anybody may read
        member_epoch: int,  # noqa: ARG002
    ) -> ErrorCode | None:
        return self._gone()

    def validate_offset_delete(self) -> ErrorCode | None:
        """Members of other protocol types do not say what they read."""
        empty_or_readable = (
            self._core.state is ClassicGroupState.EMPTY
            or self._core.protocol_type == CONSUMER_PROTOCOL_TYPE
        )
        return self._gone() or (None if empty_or_readable else ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> ErrorCode | None:
        empty = self._core.state is ClassicGroupState.EMPTY
        return self._gone() or (None if empty else ErrorCode.NON_EMPTY_GROUP)

    def retention_begins_ms(self, commit_timestamp: int) -> int | None:
        core = self._core
        if core.protocol_type is None:
            return commit_timestamp
        if core.state is ClassicGroupState.EMPTY:
            since_ms = core.state_since_ms
            return commit_timestamp if since_ms == NO_TIMESTAMP else since_ms
        if core.state is ClassicGroupState.STABLE and core.topics is not None:
            return commit_timestamp
        return None

    def offsets_committed(self, member_id: str, now_ms: int) -> list[Effect]:
        member = self._core.roster.get(member_id)
        living = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)
        if member is None or self._core.state not in living:
            return []
        return self._core.expect(member, now_ms)

    def tombstones(self) -> tuple[GroupMetadataRecord, ...]:
        return (GroupMetadataRecord(GroupMetadataKey(group=self.group_id), None),)

    def _gone(self) -> ErrorCode | None:
        gone = self._core.state is ClassicGroupState.DEAD
        return ErrorCode.GROUP_ID_NOT_FOUND if gone else None

    def _on_request(self, asked: Asked) -> list[Effect]:
        request = asked.request
        assert isinstance(request, ClassicRequest)
        if self._core.state is ClassicGroupState.DEAD:
            return [answers.error_response(asked, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        match request:
            case JoinGroupRequest():
                is_new = not self._is_written and self._core.state is ClassicGroupState.EMPTY
                effects = join(self._core, asked, request, self._rng)
                return self._written_down(effects, asked.now_ms) if is_new else effects
            case SyncGroupRequest():
                return sync(self._core, asked, request)
            case HeartbeatRequest():
                return heartbeat(self._core, asked, request)
            case LeaveGroupRequest():
                return leave(self._core, asked, request)
            case _:
                assert_never(request)

    def _written_down(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        """A new group is in the log before anybody hears of it, and shows in ListGroups then."""
        value = GroupMetadataValue(current_state_timestamp=now_ms)
        record = GroupMetadataRecord(GroupMetadataKey(group=self.group_id), value)
        replies = [effect for effect in effects if isinstance(effect, Reply)]
        timers = [effect for effect in effects if not isinstance(effect, Reply)]
        return [*timers, Append((record,)), *replies]

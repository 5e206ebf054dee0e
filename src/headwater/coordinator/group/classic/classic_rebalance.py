"""Rebalance of a classic group: from one generation to the next.

First all members join, then the leader sends the assignments, and their record completes the
generation. Everything between two records is soft state: members come and go and generations are
counted without records, and if the coordinator fails meanwhile, the group is loaded from its last
record. So a generation's number may be handed out twice but completed only once.

Timers are set before a record is appended: a failed append must not leave a group that no timer
wakes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TIMESTAMP
from headwater.coordinator.group.classic import classic_responses as responses
from headwater.coordinator.group.classic.classic_group_member import (
    ClassicGroupMember,
    recorded_member,
    session_timer,
)
from headwater.coordinator.group.classic.classic_group_members import ClassicGroupMembers
from headwater.coordinator.group.classic.classic_group_state import TRANSITIONS, ClassicGroupState
from headwater.coordinator.group.classic.classic_subscribed_topics import (
    CONSUMER_PROTOCOL_TYPE,
    subscribed_topics,
)
from headwater.coordinator.group.group import GROUP_TIMER
from headwater.coordinator.group.wait_deadline import waits_until
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    CancelTimer,
    Effect,
    Reply,
    RequestEvent,
    SetTimer,
    TimerKey,
)

JOIN_TIMER: Final = "join"
SYNC_TIMER: Final = "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicLimits:
    """Limits of classic groups from broker settings and Kafka's constants."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000


@dataclass(slots=True, kw_only=True)
class InitialRebalanceDelay:
    """The first rebalance of an empty group, which waits for members (GR-5)."""

    delay_ms: int
    remaining_ms: int
    has_grown: bool = False


@dataclass(slots=True, kw_only=True)
class ClassicRebalance:
    group_id: str
    limits: ClassicLimits
    members: ClassicGroupMembers = field(default_factory=ClassicGroupMembers)
    state: ClassicGroupState = ClassicGroupState.EMPTY
    state_since_ms: int = NO_TIMESTAMP
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    topics: frozenset[str] | None = None
    """Subscribed topics, if the members are consumers and it can be parsed."""
    initial_delay: InitialRebalanceDelay | None = None
    join_timeout_ms: int = 0
    join_deadline_ms: int = 0
    sync_deadline_ms: int = 0

    @property
    def terms(self) -> responses.GenerationTerms:
        return responses.GenerationTerms(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.members.leader,
        )

    @property
    def can_begin(self) -> bool:
        return ClassicGroupState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    def move_to(self, state: ClassicGroupState, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], (
            f"invalid group state transition: {self.state.name} to {state.name}"
        )
        self.state = state
        self.state_since_ms = now_ms

    def begin_or_complete(self, now_ms: int) -> list[Effect]:
        """Handle a change of the members."""
        return self.begin(now_ms) if self.can_begin else self.complete_join_if_due(now_ms)

    def begin(self, now_ms: int) -> list[Effect]:
        """Start a rebalance. Members learn of it with their next heartbeat."""
        effects = self._send_back_to_join(now_ms)
        effects.append(CancelTimer(sync_timer(self.group_id)))
        if self.state is ClassicGroupState.EMPTY:
            return effects + self._open(now_ms)
        self.move_to(ClassicGroupState.PREPARING_REBALANCE, now_ms)
        if self.members.have_all_joined:
            return effects + self.complete_join(now_ms)
        return effects + self._wait_for_joins(now_ms, self.members.rebalance_timeout_ms)

    def complete_join_if_due(self, now_ms: int) -> list[Effect]:
        """Complete the join phase if all have joined; the first one waits (GR-5)."""
        if (
            self.state is not ClassicGroupState.PREPARING_REBALANCE
            or self.initial_delay is not None
        ):
            return []
        return self.complete_join(now_ms) if self.members.have_all_joined else []

    def complete_join(self, now_ms: int) -> list[Effect]:
        """End the join phase and remove dynamic members that have not rejoined (GR-5)."""
        effects: list[Effect] = [CancelTimer(join_timer(self.group_id))]
        for member in self.members.all():
            if member.joining is None and not member.is_static:
                effects += self.remove(member)
        if len(self.members) and not self.members.elect_leader():
            # Only static members that have not rejoined are left: wait for them or their session
            # timeouts.
            return effects + self._wait_for_joins(now_ms, self.members.rebalance_timeout_ms)
        self.initial_delay = None
        self.generation += 1
        if len(self.members):
            return effects + self._await_assignments(now_ms)
        self.choose(None)
        self.move_to(ClassicGroupState.EMPTY, now_ms)
        return [*effects, Append((self.record({}),))]

    def complete_sync(self, assignments: Mapping[str, bytes], now_ms: int) -> list[Effect]:
        """Append the leader's assignments, then answer SyncGroup requests (GR-10).

        The group becomes stable when the record is replayed. If it cannot be appended, the sync
        timer, which keeps running, starts another rebalance.
        """
        timers: list[Effect] = []
        replies: list[Effect] = []
        for member in self.members.all():
            if member.syncing is not None:
                assignment = assignments.get(member.member_id, b"")
                replies.append(responses.assign(member.syncing, self.terms, assignment))
                member.syncing = None
                timers += self.expect(member, now_ms)
        return [*timers, Append((self.record(assignments),)), *replies]

    def record(self, assignments: Mapping[str, bytes]) -> GroupMetadataRecord:
        members = tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(self.protocol) or b"",
                assignment=assignments.get(member.member_id, b""),
            )
            for member in self.members.all()
        )
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.members.leader,
            current_state_timestamp=self.state_since_ms,
            members=members,
        )
        return GroupMetadataRecord(GroupMetadataKey(group=self.group_id), value)

    def adopt(self, value: GroupMetadataValue) -> None:
        """Apply a record; keep what it does not contain of known members."""
        known, self.members = self.members, ClassicGroupMembers(pending=self.members.pending)
        for record in value.members:
            member = known.get(record.member_id)
            if member is None:
                member = recorded_member(record, value.protocol)
            member.update_from_record(record, value.protocol)
            self.members.add(member)
        if value.leader in self.members.members:
            self.members.leader = value.leader
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.choose(value.protocol)
        self.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
        self.state_since_ms = value.current_state_timestamp

    def choose(self, protocol: str | None) -> None:
        self.protocol = protocol
        self.topics = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            members = self.members.all()
            self.topics = subscribed_topics(member.metadata(protocol) or b"" for member in members)

    def expect(
        self, member: ClassicGroupMember, now_ms: int, timeout_ms: int | None = None
    ) -> list[Effect]:
        """Restart a member's session. A timer that fires earlier is set again then."""
        member.timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.deadline_ms = now_ms + member.timeout_ms
        if member.timer_ms is not None and member.timer_ms <= member.deadline_ms:
            return []
        member.timer_ms = member.deadline_ms
        return [SetTimer(session_timer(self.group_id, member.member_id), member.deadline_ms)]

    def wait_to_join(self, member: ClassicGroupMember, event: RequestEvent) -> list[Effect]:
        """Park a join. A repeated join replaces the earlier one.

        Kafka never answers the earlier one. We answer it with a harmless error.
        """
        earlier, member.joining = member.joining, event
        return [] if earlier is None else [_replaced_join(earlier, member)]

    def remove(self, member: ClassicGroupMember) -> list[Effect]:
        """Remove a member and fail its waiting requests. It may join again as a new one."""
        self.members.remove(member.member_id)
        effects: list[Effect] = [CancelTimer(session_timer(self.group_id, member.member_id))]
        if member.joining is not None:
            effects.append(
                responses.join_error(member.joining, ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
            )
        if member.syncing is not None:
            effects.append(responses.sync_error(member.syncing, ErrorCode.UNKNOWN_MEMBER_ID))
        return effects

    def on_join_timer(self, now_ms: int) -> list[Effect]:
        if self.state is not ClassicGroupState.PREPARING_REBALANCE:
            return []
        until_ms = waits_until(self.join_deadline_ms, now_ms, self.join_timeout_ms)
        if until_ms is not None:
            self.join_deadline_ms = until_ms
            return [SetTimer(join_timer(self.group_id), until_ms)]
        opening = self.initial_delay
        if opening is None or not opening.has_grown or opening.remaining_ms == 0:
            return self.complete_join(now_ms)
        delay_ms = min(self.limits.initial_rebalance_delay_ms, opening.remaining_ms)
        remaining_ms = max(opening.remaining_ms - opening.delay_ms, 0)
        self.initial_delay = InitialRebalanceDelay(delay_ms=delay_ms, remaining_ms=remaining_ms)
        return self._wait_for_joins(now_ms, delay_ms)

    def on_sync_timer(self, now_ms: int) -> list[Effect]:
        """Remove members that have not sent SyncGroup in time (GR-10)."""
        if self.state not in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
            return []
        until_ms = waits_until(self.sync_deadline_ms, now_ms, self.members.rebalance_timeout_ms)
        if until_ms is not None:
            self.sync_deadline_ms = until_ms
            return [SetTimer(sync_timer(self.group_id), until_ms)]
        missing = [member for member in self.members.all() if member.awaits_sync]
        if not missing and self.state is ClassicGroupState.STABLE:
            return []
        effects = [effect for member in missing for effect in self.remove(member)]
        return effects + self.begin(now_ms)

    def _open(self, now_ms: int) -> list[Effect]:
        delay_ms = self.limits.initial_rebalance_delay_ms
        remaining_ms = max(self.members.rebalance_timeout_ms - delay_ms, 0)
        self.initial_delay = InitialRebalanceDelay(delay_ms=delay_ms, remaining_ms=remaining_ms)
        self.move_to(ClassicGroupState.PREPARING_REBALANCE, now_ms)
        return self._wait_for_joins(now_ms, delay_ms)

    def _wait_for_joins(self, now_ms: int, timeout_ms: int) -> list[Effect]:
        self.join_timeout_ms = timeout_ms
        self.join_deadline_ms = now_ms + timeout_ms
        return [SetTimer(join_timer(self.group_id), self.join_deadline_ms)]

    def _await_assignments(self, now_ms: int) -> list[Effect]:
        self.choose(self.members.choose_protocol())
        self.move_to(ClassicGroupState.COMPLETING_REBALANCE, now_ms)
        timers: list[Effect] = []
        replies: list[Effect] = []
        for member in self.members.all():
            if member.joining is not None:
                replies.append(self.admit(member, member.joining))
                member.joining = None
            member.is_new = False
            member.awaits_sync = True
            timers += self.expect(member, now_ms)
        self.sync_deadline_ms = now_ms + self.members.rebalance_timeout_ms
        return [*timers, SetTimer(sync_timer(self.group_id), self.sync_deadline_ms), *replies]

    def admit(self, member: ClassicGroupMember, event: RequestEvent) -> Reply:
        is_leader = self.members.leader == member.member_id
        members = self.members.all() if is_leader else ()
        return responses.admit(event, member.member_id, self.terms, members=members)

    def _send_back_to_join(self, now_ms: int) -> list[Effect]:
        """Drop an incomplete generation; members that wait for it must rejoin."""
        effects: list[Effect] = []
        is_incomplete = self.state is ClassicGroupState.COMPLETING_REBALANCE
        for member in self.members.all():
            member.awaits_sync = False
            if is_incomplete:
                member.assignment = b""
            if member.syncing is not None:
                effects.append(
                    responses.sync_error(member.syncing, ErrorCode.REBALANCE_IN_PROGRESS)
                )
                member.syncing = None
                effects += self.expect(member, now_ms)
        return effects


def join_timer(group_id: str) -> TimerKey:
    return (GROUP_TIMER, group_id, JOIN_TIMER)


def sync_timer(group_id: str) -> TimerKey:
    return (GROUP_TIMER, group_id, SYNC_TIMER)


def _replaced_join(event: RequestEvent, member: ClassicGroupMember) -> Reply:
    return responses.join_error(event, ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)

"""A consumer group in which some members still use the classic protocol (NG-10).

While a group is upgraded, one consumer after another, it has both kinds of members. The coordinator
assigns partitions for all. A classic member gets the results in its protocol: a heartbeat tells it
to rejoin, the join is answered at once with its member epoch as generation, and the sync returns
its assignment. There is no leader and no waiting for other members.

Note: a classic member reports its owned partitions only when it joins. So a heartbeat makes it
rejoin whenever there is a step to take, and a member that does not is removed. When only classic
members are left, the group becomes a classic one (see `group_downgrade`).
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, assert_never

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.common.ports import Random
from headwater.coordinator.group.classic import classic_responses as responses
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.coordinator.group.classic.classic_subscribed_topics import CONSUMER_PROTOCOL_TYPE
from headwater.coordinator.group.consumer.classic_member_protocol import (
    Subscription,
    ids_of,
    read_subscription,
    version_of,
    write_assignment,
)
from headwater.coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    appended,
    has_other_topics,
)
from headwater.coordinator.group.consumer.consumer_group_draft import GroupDraft
from headwater.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
)
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.group.consumer.group_downgrade import Downgrading, Remainder
from headwater.coordinator.group.wait_deadline import waits_until
from headwater.coordinator.records.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Effect,
    Reply,
    RequestEvent,
    SetTimer,
    TimerFired,
)
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import JoinGroupRequest
from headwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headwater.protocol.messages.sync_group import SyncGroupRequest

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_JOIN: Final = "join"
_SYNC: Final = "sync"


class MixedConsumerGroup(ConsumerGroup):
    """A consumer group that answers the requests of both protocols."""

    def __init__(
        self,
        group_id: str,
        *,
        settings: ConsumerGroupSettings,
        rng: Random,
        image: Callable[[], ClusterImage],
        downgrading: Downgrading,
    ) -> None:
        super().__init__(group_id, settings=settings, rng=rng, image=image)
        self._downgrading = downgrading
        self._step_deadlines_ms: dict[tuple[str, str], int] = {}

    def decide(self, event: RequestEvent) -> list[Effect]:
        request = event.request
        if not isinstance(request, ClassicRequest):
            return super().decide(event)
        match request:
            case JoinGroupRequest():
                return self._on_join(event, request)
            case SyncGroupRequest():
                return self._on_sync(event, request)
            case HeartbeatRequest():
                return self._on_classic_heartbeat(event, request)
            case LeaveGroupRequest():
                return self._on_leave_group(event, request)
            case _:
                assert_never(request)

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        match timer.key:
            case (_, _, ("join" | "sync") as kind, str(member_id)):
                return self._on_step_timer(timer, kind, member_id)
            case _:
                return super().on_timer(timer)

    def remove(self, member_id: str, now_ms: int) -> list[Effect]:
        change = self._downgraded_without((member_id,), now_ms)
        return super().remove(member_id, now_ms) if change is None else change

    def _downgraded_without(self, left: Collection[str], now_ms: int) -> list[Effect] | None:
        """Convert to a classic group if these were the last new-protocol members."""
        members = [each for each in self.state.members.values() if each.member_id not in left]
        targets = {each.member_id: self.state.target_of(each.member_id) for each in members}
        remainder = Remainder(
            group_id=self.state.group_id,
            members=members,
            targets=targets,
            epoch=self.state.epoch,
            is_complete=False,
        )
        return self._downgraded(remainder, now_ms)

    def _downgraded_by(self, draft: GroupDraft, instance_id: str | None) -> list[Effect] | None:
        """The same, for a static member that rejoined with the classic protocol."""
        if instance_id is None or self.state.static_member(instance_id) is None:
            return None
        members = list(draft.members())
        remainder = Remainder(
            group_id=self.state.group_id,
            members=members,
            targets={each.member_id: draft.target_of(each.member_id) for each in members},
            epoch=draft.epoch,
            is_complete=True,
        )
        return self._downgraded(remainder, draft.now_ms)

    def _downgraded(self, remainder: Remainder, now_ms: int) -> list[Effect] | None:
        change = self._downgrading(remainder, now_ms)
        if change is None:
            return None
        return [Append((*self.tombstones(), change.record)), *change.effects]

    def _on_join(self, event: RequestEvent, request: JoinGroupRequest) -> list[Effect]:
        subscription = self._subscription(request)
        if subscription is None:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            return [responses.join_error(event, error, member_id=request.member_id)]
        has_no_id = not request.member_id
        member_id = request.member_id or self.new_member_id()
        is_dynamic = request.group_instance_id is None
        if has_no_id and is_dynamic and event.version >= _MEMBER_ID_REQUIRED_SINCE:
            return [responses.join_error(event, ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)]
        draft = self.draft(event.now_ms)
        before = self._joining_member(draft, request, member_id)
        if isinstance(before, ErrorCode):
            return [responses.join_error(event, before, member_id=request.member_id)]
        member = _as_it_joins(before, event, request, subscription)
        draft.put(before, member)
        self.follow_topics(draft, is_resubscribed=has_other_topics(before, member))
        if draft.epoch > self.state.assignment_epoch:
            draft.assign()
        after = draft.reconcile(member, ids_of(subscription.owned_partitions, draft.image))
        terms = responses.GenerationTerms(
            generation=after.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=request.protocols[0].name,
            leader=None,
        )
        self._step_deadlines_ms.pop((_JOIN, after.member_id), None)
        effects = self._downgraded_by(draft, request.group_instance_id)
        if effects is None:
            effects = [
                *appended(draft),
                *self.time_session(after, event.now_ms),
                *self._time_step(_SYNC, after, event.now_ms),
            ]
        return [*effects, responses.admit(event, after.member_id, terms)]

    def _subscription(self, request: JoinGroupRequest) -> Subscription | None:
        """Return its subscription if valid and all classic members have a common protocol."""
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
            return None
        shared = dict.fromkeys(each.name for each in request.protocols)
        for member in self.state.members.values():
            if member.classic is not None and member.member_id != request.member_id:
                offered = [each.name for each in member.classic.supported_protocols]
                shared = dict.fromkeys(name for name in shared if name in offered)
        if not shared:
            return None
        try:
            return read_subscription(request.protocols[0].metadata)
        except ProtocolError:
            return None

    def _joining_member(
        self, draft: GroupDraft, request: JoinGroupRequest, member_id: str
    ) -> ConsumerGroupMember | ErrorCode:
        instance_id = request.group_instance_id
        holder = None if instance_id is None else self.state.static_member(instance_id)
        if instance_id is not None and request.member_id:
            return self._member(request.member_id, instance_id)
        if holder is not None:
            return draft.replace_static(holder, member_id)
        member = self.state.members.get(member_id)
        if member is not None:
            return member
        if len(self.state.members) >= self.settings.max_size:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ConsumerGroupMember(member_id=member_id)

    def _member(self, member_id: str, instance_id: str | None) -> ConsumerGroupMember | ErrorCode:
        """Return a member by member id and instance id (NG-7)."""
        if instance_id is not None:
            holder = self.state.static_member(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return holder if holder.member_id == member_id else ErrorCode.FENCED_INSTANCE_ID
        return self.state.members.get(member_id) or ErrorCode.UNKNOWN_MEMBER_ID

    def _classic_member(
        self, request: SyncGroupRequest | HeartbeatRequest
    ) -> tuple[ConsumerGroupMember, ClassicMemberMetadata] | ErrorCode:
        member = self._member(request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            return member
        if member.classic is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.member_epoch != request.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return member, member.classic

    def _on_sync(self, event: RequestEvent, request: SyncGroupRequest) -> list[Effect]:
        found = self._classic_member(request)
        if isinstance(found, ErrorCode):
            return [responses.sync_error(event, found)]
        member, classic = found
        protocol = classic.supported_protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
            request.protocol_name not in (None, protocol.name)
        ):
            return [responses.sync_error(event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
        is_behind = self.state.epoch > member.member_epoch
        if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return [
                *self._time_step_once(_JOIN, member, event.now_ms),
                responses.sync_error(event, ErrorCode.REBALANCE_IN_PROGRESS),
            ]
        terms = responses.GenerationTerms(
            generation=member.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=protocol.name,
            leader=None,
        )
        version = version_of(protocol.metadata)
        assignment = write_assignment(member.assigned, version, self.image())
        self._step_deadlines_ms.pop((_SYNC, member.member_id), None)
        return [
            *self.time_session(member, event.now_ms),
            responses.assign(event, terms, assignment),
        ]

    def _on_classic_heartbeat(self, event: RequestEvent, request: HeartbeatRequest) -> list[Effect]:
        found = self._classic_member(request)
        if isinstance(found, ErrorCode):
            return [Reply(event.caller, HeartbeatResponse(error_code=found))]
        member, _ = found
        effects = self.time_session(member, event.now_ms)
        error = ErrorCode.NONE
        if self._has_step_to_take(member):
            error = ErrorCode.REBALANCE_IN_PROGRESS
            effects += self._time_step_once(_JOIN, member, event.now_ms)
        return [*effects, Reply(event.caller, HeartbeatResponse(error_code=error))]

    def _has_step_to_take(self, member: ConsumerGroupMember) -> bool:
        if member.member_epoch < self.state.epoch:
            return True
        match member.state:
            case MemberState.UNREVOKED_PARTITIONS:
                return True
            case MemberState.UNRELEASED_PARTITIONS:
                waits_for = self.state.target_of(member.member_id) - member.assigned
                return any(map(self.state.is_free, waits_for))
            case _:
                return False

    def _on_leave_group(self, event: RequestEvent, request: LeaveGroupRequest) -> list[Effect]:
        draft = self.draft(event.now_ms)
        results = []
        left: dict[str, None] = {}
        for identity in request.members:
            error = ErrorCode.NONE
            instance_id, member_id = identity.group_instance_id, identity.member_id
            if instance_id is not None and not member_id:
                # Only an administrator names the instance alone (GR-13).
                member_id = self.state.static_members.get(instance_id, "")
            member = self._member(member_id, instance_id)
            if isinstance(member, ErrorCode):
                error = member
            elif member.classic is None or member_id in left:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            else:
                left[member_id] = None
                draft.remove(member_id)
            results.append(replace(responses.left(identity, error), member_id=member_id))
        effects = self._downgraded_without(left, event.now_ms) if left else []
        if effects is None:
            draft.follow_topics(is_resubscribed=True, are_regexes_stale=False)
            effects = appended(draft)
        return [*effects, Reply(event.caller, LeaveGroupResponse(members=tuple(results)))]

    def _time_step(self, kind: str, member: ConsumerGroupMember, now_ms: int) -> list[Effect]:
        deadline_ms = now_ms + member.rebalance_timeout_ms
        self._step_deadlines_ms[kind, member.member_id] = deadline_ms
        return [SetTimer(self.key(kind, member.member_id), deadline_ms)]

    def _time_step_once(self, kind: str, member: ConsumerGroupMember, now_ms: int) -> list[Effect]:
        """Being told again does not extend the deadline."""
        if (kind, member.member_id) in self._step_deadlines_ms:
            return []
        return self._time_step(kind, member, now_ms)

    def _on_step_timer(self, timer: TimerFired, kind: str, member_id: str) -> list[Effect]:
        """A classic member did not join or sync in time: remove it."""
        deadline_ms = self._step_deadlines_ms.get((kind, member_id))
        if deadline_ms is None:
            return []
        member = self.state.members.get(member_id)
        if member is None:
            del self._step_deadlines_ms[kind, member_id]
            return []
        until_ms = waits_until(deadline_ms, timer.now_ms, member.rebalance_timeout_ms)
        if until_ms is not None:
            self._step_deadlines_ms[kind, member_id] = until_ms
            return [SetTimer(timer.key, until_ms)]
        return [*self.retry_timer(timer), *self.remove(member_id, timer.now_ms)]


def _as_it_joins(
    before: ConsumerGroupMember,
    event: RequestEvent,
    request: JoinGroupRequest,
    subscription: Subscription,
) -> ConsumerGroupMember:
    return replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=None,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=each.name, metadata=each.metadata)
                for each in request.protocols
            ),
        ),
    )

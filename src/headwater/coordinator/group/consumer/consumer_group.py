"""One consumer group (KIP-848): members say what they want, the coordinator says who gets what.

There is one request, the heartbeat, and no barrier: each member is led to its target at its own
pace. Three epochs tell how far things are. The group's grows when there is something new; the
assignment's is the group's epoch that the target was made for; a member's is where it has come.

What a reader would get wrong: a group that never was has epoch 0, and is asked all the same. It
lets a member join, and to anybody else it is not found.
"""

from collections.abc import Callable
from typing import Final

from headwater.common.elapsed import has_passed
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidPattern
from headwater.common.ids import TopicId
from headwater.common.ports import Random
from headwater.coordinator.assignors.assignor_spec import Partitions
from headwater.coordinator.group.consumer import consumer_group_record_values as record_values
from headwater.coordinator.group.consumer.consumer_group_draft import GroupDraft
from headwater.coordinator.group.consumer.consumer_group_member import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerGroupMember,
    MemberState,
)
from headwater.coordinator.group.consumer.consumer_group_queries import ConsumerGroupQueries
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.group.consumer.consumer_group_state import ConsumerGroupState
from headwater.coordinator.group.consumer.consumer_group_validation import (
    HeartbeatError,
    is_full,
    is_leaving,
    refuse_epoch,
    refuse_instance,
    refuse_request,
)
from headwater.coordinator.group.group import GROUP_TIMER
from headwater.coordinator.group.wait_deadline import waits_until
from headwater.coordinator.records.consumer_group_records import ConsumerGroupRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Asked,
    Effect,
    Reply,
    SetTimer,
    TimerFired,
    TimerKey,
    sees_all,
)
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

REGEX_REFRESH_PAUSE_MS: Final = 10_000
"""Regular expressions are not resolved more often, however many topics come and go."""

_QUOTED: Final = 100
_SESSION: Final = "session"
_REVOCATION: Final = "revocation"


class ConsumerGroup(ConsumerGroupQueries):
    """The machine of one group. `state` is durable; what is private is soft."""

    def __init__(
        self,
        group_id: str,
        *,
        settings: ConsumerGroupSettings,
        rng: Random,
        image: Callable[[], ClusterImage],
    ) -> None:
        super().__init__(ConsumerGroupState(group_id), settings, image)
        self._rng = rng
        self._session_deadlines_ms: dict[str, int] = {}
        self._revocation_deadlines_ms: dict[str, tuple[int, int]] = {}
        self._settled_version: Version | None = None
        self._regexes_version: Version | None = None
        self._regexes_refreshed_ms: int | None = None

    def replay(self, record: ConsumerGroupRecord) -> None:
        self.state.replay(record)

    def loaded(self, now_ms: int) -> list[Effect]:
        """All records are replayed: members get time to find the new coordinator."""
        effects: list[Effect] = []
        for member in self.state.members.values():
            effects += self.time_session(member, now_ms)
            effects += self._time_revocation(member, now_ms)
        return effects

    def decide(self, asked: Asked) -> list[Effect]:
        request = asked.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        refusal = refuse_request(request, asked.version, self.settings.assignors)
        if refusal is None and self.state.epoch == 0 and request.member_epoch != JOINING_EPOCH:
            refusal = HeartbeatError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id!r}"
            )
        if refusal is not None:
            return _refused(asked, refusal)
        if is_leaving(request):
            return self._on_leave(asked, request)
        return self._on_heartbeat(asked, request)

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        match timer.key:
            case (_, _, "session", str(member_id)):
                return self._on_session_timer(timer, member_id)
            case (_, _, "revocation", str(member_id)):
                return self._on_revocation_timer(timer, member_id)
            case _:
                # The group was a classic one when it was set.
                return []

    def _on_heartbeat(self, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> list[Effect]:
        owned: Partitions | None = None
        if request.topic_partitions is not None:
            owned = record_values.partitions_of(request.topic_partitions)
        draft = self.draft(asked.now_ms, asked.sees)
        before = self._identify(draft, request, owned)
        if isinstance(before, HeartbeatError):
            return _refused(asked, before)
        member = before.updated_by(asked, request)
        refusal = _refuse_regex(draft, before, member) or _refuse_unknown_state(before, owned)
        if refusal is not None:
            return _refused(asked, refusal)
        draft.put(before, member)
        self.follow_topics(draft, is_resubscribed=wants_other_topics(before, member))
        if draft.epoch > self.state.assignment_epoch:
            draft.assign()
        after = draft.reconcile(member, owned)
        effects = appended(draft)
        effects += self.time_session(after, asked.now_ms)
        if after is not member:
            effects += self._time_revocation(after, asked.now_ms)
        has_news = is_full(request) or after.assigned != before.assigned
        effects.append(Reply(asked.caller, self._answer(after, with_assignment=has_news)))
        return effects

    def _identify(
        self,
        draft: GroupDraft,
        request: ConsumerGroupHeartbeatRequest,
        owned: Partitions | None,
    ) -> ConsumerGroupMember | HeartbeatError:
        """Who this is: a member that is known, or came back, or is new."""
        member_id = request.member_id or self.new_member_id()
        is_joining = request.member_epoch == JOINING_EPOCH
        holder = None
        if request.instance_id is not None:
            holder = self.state.static_member(request.instance_id)
            if is_joining and holder is not None:
                return self._return_static(draft, holder, member_id)
            if not is_joining:
                refusal = refuse_instance(holder, request.instance_id, member_id)
                if refusal is not None:
                    return refusal
        member = self.state.members.get(member_id)
        if member is not None:
            return refuse_epoch(member, request.member_epoch, owned) or member
        if not is_joining:
            return HeartbeatError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member")
        if len(self.state.members) >= self.settings.max_size:
            return HeartbeatError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group has {self.settings.max_size} members, which is as many as it may have",
            )
        return ConsumerGroupMember(member_id=member_id)

    def _return_static(
        self, draft: GroupDraft, holder: ConsumerGroupMember, member_id: str
    ) -> ConsumerGroupMember | HeartbeatError:
        if holder.classic is None and not holder.has_left_for_a_moment:
            return HeartbeatError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"instance {holder.instance_id!r} is still member {holder.member_id!r}",
            )
        return draft.replace_static(holder, member_id)

    def new_member_id(self) -> str:
        return str(TopicId(self._rng.bytes(16)))

    def follow_topics(self, draft: GroupDraft, *, is_resubscribed: bool) -> None:
        version = draft.image.version
        are_regexes_stale = self._are_regexes_stale(version, draft.now_ms)
        if not is_resubscribed and not are_regexes_stale and version == self._settled_version:
            return
        has_written = draft.follow_topics(
            is_resubscribed=is_resubscribed, are_regexes_stale=are_regexes_stale
        )
        # If there is something to write, writing it may fail; so then it is looked at once more.
        if not has_written:
            self._settled_version = version
            if are_regexes_stale:
                self._regexes_version, self._regexes_refreshed_ms = version, draft.now_ms

    def _are_regexes_stale(self, version: Version, now_ms: int) -> bool:
        if not self.state.regexes:
            return False
        refreshed_ms = self._regexes_refreshed_ms
        has_news = version != self._regexes_version
        return (has_news and has_passed(refreshed_ms, REGEX_REFRESH_PAUSE_MS, now_ms)) or (
            has_passed(refreshed_ms, self.settings.regex_refresh_interval_ms, now_ms)
        )

    def _on_leave(self, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> list[Effect]:
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is not None:
            holder = self.state.static_member(instance_id)
            refusal = refuse_instance(holder, instance_id, member_id)
            if refusal is not None:
                return _refused(asked, refusal)
        member = self.state.members.get(member_id)
        if member is None:
            refusal = HeartbeatError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member")
            return _refused(asked, refusal)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            leaving = member.left_for_a_moment()
            record = record_values.current_assignment(self.state.group_id, leaving)
            return [Append((record,)), Reply(asked.caller, response)]
        return [*self.remove(member_id, asked.now_ms), Reply(asked.caller, response)]

    def remove(self, member_id: str, now_ms: int) -> list[Effect]:
        """Its timers go on, in case this cannot be written; without a member they do nothing."""
        draft = self.draft(now_ms)
        draft.remove(member_id)
        draft.follow_topics(is_resubscribed=True, are_regexes_stale=False)
        return appended(draft)

    def _on_session_timer(self, timer: TimerFired, member_id: str) -> list[Effect]:
        """A member that was not heard of for too long is removed (NG-6)."""
        member = self.state.members.get(member_id)
        if member is None:
            self._session_deadlines_ms.pop(member_id, None)
            return []
        deadline_ms = self._session_deadlines_ms.get(member_id)
        if deadline_ms is None:
            return self.time_session(member, timer.now_ms)
        until_ms = waits_until(deadline_ms, timer.now_ms, self._session_timeout_ms(member))
        if until_ms is not None:
            self._session_deadlines_ms[member_id] = until_ms
            return [SetTimer(timer.key, until_ms)]
        return [*self.look_again(timer), *self.remove(member_id, timer.now_ms)]

    def _on_revocation_timer(self, timer: TimerFired, member_id: str) -> list[Effect]:
        """So is one that does not give back what it shall (NG-6)."""
        member = self.state.members.get(member_id)
        epoch, deadline_ms = self._revocation_deadlines_ms.get(member_id, (JOINING_EPOCH, 0))
        if (
            member is None
            or member.state is not MemberState.UNREVOKED_PARTITIONS
            or member.member_epoch != epoch
        ):
            self._revocation_deadlines_ms.pop(member_id, None)
            return []
        until_ms = waits_until(deadline_ms, timer.now_ms, member.rebalance_timeout_ms)
        if until_ms is not None:
            self._revocation_deadlines_ms[member_id] = (epoch, until_ms)
            return [SetTimer(timer.key, until_ms)]
        return [*self.look_again(timer), *self.remove(member_id, timer.now_ms)]

    def look_again(self, timer: TimerFired) -> list[Effect]:
        """Before something is written that may fail."""
        return [SetTimer(timer.key, timer.now_ms + self.settings.heartbeat_interval_ms)]

    def time_session(self, member: ConsumerGroupMember, now_ms: int) -> list[Effect]:
        member_id = member.member_id
        deadline_ms = now_ms + self._session_timeout_ms(member)
        self._session_deadlines_ms[member_id] = deadline_ms
        return [SetTimer(self.key(_SESSION, member_id), deadline_ms)]

    def _session_timeout_ms(self, member: ConsumerGroupMember) -> int:
        """Members of the classic protocol bring their own."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.settings.session_timeout_ms

    def _time_revocation(self, member: ConsumerGroupMember, now_ms: int) -> list[Effect]:
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.classic is not None:
            return []
        deadline_ms = now_ms + member.rebalance_timeout_ms
        self._revocation_deadlines_ms[member.member_id] = (member.member_epoch, deadline_ms)
        return [SetTimer(self.key(_REVOCATION, member.member_id), deadline_ms)]

    def key(self, kind: str, member_id: str) -> TimerKey:
        return (GROUP_TIMER, self.state.group_id, kind, member_id)

    def draft(self, now_ms: int, sees: Callable[[str], bool] = sees_all) -> GroupDraft:
        return GroupDraft(
            state=self.state,
            image=self.image(),
            settings=self.settings,
            now_ms=now_ms,
            epoch=self.state.epoch,
            sees=sees,
        )

    def _answer(
        self, member: ConsumerGroupMember, *, with_assignment: bool
    ) -> ConsumerGroupHeartbeatResponse:
        assignment = None
        if with_assignment:
            assignment = Assignment(
                topic_partitions=tuple(
                    TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in record_values.by_topic(member.assigned)
                )
            )
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
            assignment=assignment,
        )


def appended(draft: GroupDraft) -> list[Effect]:
    return [Append(tuple(draft.records))] if draft.records else []


def _refused(asked: Asked, refusal: HeartbeatError) -> list[Effect]:
    response = ConsumerGroupHeartbeatResponse(
        error_code=refusal.error_code, error_message=refusal.message
    )
    return [Reply(asked.caller, response)]


def wants_other_topics(before: ConsumerGroupMember, member: ConsumerGroupMember) -> bool:
    return (
        member.subscribed_topic_names != before.subscribed_topic_names
        or member.subscribed_topic_regex != before.subscribed_topic_regex
    )


def _refuse_regex(
    draft: GroupDraft, before: ConsumerGroupMember, member: ConsumerGroupMember
) -> HeartbeatError | None:
    """What is no regular expression, or takes too much to match (NG-9)."""
    regex = member.subscribed_topic_regex
    if not regex or regex == before.subscribed_topic_regex or regex in draft.state.regexes:
        return None
    try:
        draft.match(regex)
    except InvalidPattern as error:
        return HeartbeatError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex[:_QUOTED]!r}: {error}")
    return None


def _refuse_unknown_state(
    member: ConsumerGroupMember, owned: Partitions | None
) -> HeartbeatError | None:
    """A newer broker left the member in a state that we do not know: it must begin anew."""
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        return HeartbeatError(ErrorCode.FENCED_MEMBER_EPOCH, "the member's state is not known here")
    return None

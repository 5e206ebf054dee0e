"""One consumer group (KIP-848), whose partitions the coordinator assigns.

There is one request, the heartbeat, and no synchronization barrier: each member reaches its target
at its own pace. There are three epochs. The group epoch grows with every change; the assignment
epoch is the group epoch that the target was computed for; the member epoch is the one that a member
has reached.

Note: a group that does not exist has epoch 0. It accepts a joining member and answers
GROUP_ID_NOT_FOUND to all others.
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
    check_epoch,
    check_instance,
    check_request,
    is_full,
    is_leaving,
)
from headwater.coordinator.group.group import GROUP_TIMER
from headwater.coordinator.group.wait_deadline import waits_until
from headwater.coordinator.records.consumer_group_records import ConsumerGroupRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Effect,
    Reply,
    RequestEvent,
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
"""Minimum time between resolving regular expressions, however many topics change."""

_MAX_QUOTED: Final = 100
_SESSION: Final = "session"
_REVOCATION: Final = "revocation"


class ConsumerGroup(ConsumerGroupQueries):
    """The state machine of one group; only `state` is durable."""

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
        self._checked_version: Version | None = None
        self._regexes_version: Version | None = None
        self._regexes_refreshed_ms: int | None = None

    def replay(self, record: ConsumerGroupRecord) -> None:
        self.state.replay(record)

    def loaded(self, now_ms: int) -> list[Effect]:
        """After replay: restart the timers of all members."""
        effects: list[Effect] = []
        for member in self.state.members.values():
            effects += self.time_session(member, now_ms)
            effects += self._time_revocation(member, now_ms)
        return effects

    def decide(self, event: RequestEvent) -> list[Effect]:
        request = event.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        error = check_request(request, event.version, self.settings.assignors)
        if error is None and self.state.epoch == 0 and request.member_epoch != JOINING_EPOCH:
            error = HeartbeatError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"consumer group {request.group_id!r} does not exist"
            )
        if error is not None:
            return _error_reply(event, error)
        if is_leaving(request):
            return self._on_leave(event, request)
        return self._on_heartbeat(event, request)

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        match timer.key:
            case (_, _, "session", str(member_id)):
                return self._on_session_timer(timer, member_id)
            case (_, _, "revocation", str(member_id)):
                return self._on_revocation_timer(timer, member_id)
            case _:
                # The timer was set when the group was a classic one.
                return []

    def _on_heartbeat(
        self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest
    ) -> list[Effect]:
        owned: Partitions | None = None
        if request.topic_partitions is not None:
            owned = record_values.partitions_of(request.topic_partitions)
        draft = self.draft(event.now_ms, event.sees)
        before = self._identify(draft, request, owned)
        if isinstance(before, HeartbeatError):
            return _error_reply(event, before)
        member = before.updated_by(event, request)
        error = _check_regex(draft, before, member) or _check_state(before, owned)
        if error is not None:
            return _error_reply(event, error)
        draft.put(before, member)
        self.follow_topics(draft, is_resubscribed=has_other_topics(before, member))
        if draft.epoch > self.state.assignment_epoch:
            draft.assign()
        after = draft.reconcile(member, owned)
        effects = appended(draft)
        effects += self.time_session(after, event.now_ms)
        if after is not member:
            effects += self._time_revocation(after, event.now_ms)
        has_changed = is_full(request) or after.assigned != before.assigned
        effects.append(Reply(event.caller, self._response(after, with_assignment=has_changed)))
        return effects

    def _identify(
        self,
        draft: GroupDraft,
        request: ConsumerGroupHeartbeatRequest,
        owned: Partitions | None,
    ) -> ConsumerGroupMember | HeartbeatError:
        """Return the member: known, returning or new."""
        member_id = request.member_id or self.new_member_id()
        is_joining = request.member_epoch == JOINING_EPOCH
        holder = None
        if request.instance_id is not None:
            holder = self.state.static_member(request.instance_id)
            if is_joining and holder is not None:
                return self._return_static(draft, holder, member_id)
            if not is_joining:
                error = check_instance(holder, request.instance_id, member_id)
                if error is not None:
                    return error
        member = self.state.members.get(member_id)
        if member is not None:
            return check_epoch(member, request.member_epoch, owned) or member
        if not is_joining:
            return HeartbeatError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member")
        if len(self.state.members) >= self.settings.max_size:
            return HeartbeatError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group has reached its maximum of {self.settings.max_size} members",
            )
        return ConsumerGroupMember(member_id=member_id)

    def _return_static(
        self, draft: GroupDraft, holder: ConsumerGroupMember, member_id: str
    ) -> ConsumerGroupMember | HeartbeatError:
        if holder.classic is None and not holder.has_left_temporarily:
            return HeartbeatError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"instance id {holder.instance_id!r} is still used by member {holder.member_id!r}",
            )
        return draft.replace_static(holder, member_id)

    def new_member_id(self) -> str:
        return str(TopicId(self._rng.bytes(16)))

    def follow_topics(self, draft: GroupDraft, *, is_resubscribed: bool) -> None:
        version = draft.image.version
        are_regexes_stale = self._are_regexes_stale(version, draft.now_ms)
        if not is_resubscribed and not are_regexes_stale and version == self._checked_version:
            return
        has_written = draft.follow_topics(
            is_resubscribed=is_resubscribed, are_regexes_stale=are_regexes_stale
        )
        # If there are records, appending them may fail; so check again next time.
        if not has_written:
            self._checked_version = version
            if are_regexes_stale:
                self._regexes_version, self._regexes_refreshed_ms = version, draft.now_ms

    def _are_regexes_stale(self, version: Version, now_ms: int) -> bool:
        if not self.state.regexes:
            return False
        refreshed_ms = self._regexes_refreshed_ms
        has_changed = version != self._regexes_version
        return (has_changed and has_passed(refreshed_ms, REGEX_REFRESH_PAUSE_MS, now_ms)) or (
            has_passed(refreshed_ms, self.settings.regex_refresh_interval_ms, now_ms)
        )

    def _on_leave(
        self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest
    ) -> list[Effect]:
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is not None:
            holder = self.state.static_member(instance_id)
            error = check_instance(holder, instance_id, member_id)
            if error is not None:
                return _error_reply(event, error)
        member = self.state.members.get(member_id)
        if member is None:
            error = HeartbeatError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member")
            return _error_reply(event, error)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            leaving = member.left_temporarily()
            record = record_values.current_assignment(self.state.group_id, leaving)
            return [Append((record,)), Reply(event.caller, response)]
        return [*self.remove(member_id, event.now_ms), Reply(event.caller, response)]

    def remove(self, member_id: str, now_ms: int) -> list[Effect]:
        """Keep its timers in case the append fails; without a member they do nothing."""
        draft = self.draft(now_ms)
        draft.remove(member_id)
        draft.follow_topics(is_resubscribed=True, are_regexes_stale=False)
        return appended(draft)

    def _on_session_timer(self, timer: TimerFired, member_id: str) -> list[Effect]:
        """Remove a member whose session has expired (NG-6)."""
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
        return [*self.retry_timer(timer), *self.remove(member_id, timer.now_ms)]

    def _on_revocation_timer(self, timer: TimerFired, member_id: str) -> list[Effect]:
        """Remove a member that has not revoked partitions in time (NG-6)."""
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
        return [*self.retry_timer(timer), *self.remove(member_id, timer.now_ms)]

    def retry_timer(self, timer: TimerFired) -> list[Effect]:
        """Set the timer again before an append that may fail."""
        return [SetTimer(timer.key, timer.now_ms + self.settings.heartbeat_interval_ms)]

    def time_session(self, member: ConsumerGroupMember, now_ms: int) -> list[Effect]:
        member_id = member.member_id
        deadline_ms = now_ms + self._session_timeout_ms(member)
        self._session_deadlines_ms[member_id] = deadline_ms
        return [SetTimer(self.key(_SESSION, member_id), deadline_ms)]

    def _session_timeout_ms(self, member: ConsumerGroupMember) -> int:
        """Classic-protocol members have their own timeout."""
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

    def _response(
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


def _error_reply(event: RequestEvent, error: HeartbeatError) -> list[Effect]:
    response = ConsumerGroupHeartbeatResponse(
        error_code=error.error_code, error_message=error.message
    )
    return [Reply(event.caller, response)]


def has_other_topics(before: ConsumerGroupMember, member: ConsumerGroupMember) -> bool:
    return (
        member.subscribed_topic_names != before.subscribed_topic_names
        or member.subscribed_topic_regex != before.subscribed_topic_regex
    )


def _check_regex(
    draft: GroupDraft, before: ConsumerGroupMember, member: ConsumerGroupMember
) -> HeartbeatError | None:
    """Reject an expression that is invalid or takes too much work to match (NG-9)."""
    regex = member.subscribed_topic_regex
    if not regex or regex == before.subscribed_topic_regex or regex in draft.state.regexes:
        return None
    try:
        draft.match(regex)
    except InvalidPattern as error:
        return HeartbeatError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex[:_MAX_QUOTED]!r}: {error}"
        )
    return None


def _check_state(member: ConsumerGroupMember, owned: Partitions | None) -> HeartbeatError | None:
    """A newer broker left the member in an unknown state: it must rejoin."""
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        return HeartbeatError(
            ErrorCode.FENCED_MEMBER_EPOCH, "the member's state is unknown to this broker"
        )
    return None

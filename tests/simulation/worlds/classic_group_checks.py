"""Invariants of classic groups.

- No partition has two owners in one generation, according to SyncGroup responses, over all crashes.
- Completed generations only rise, and within a coordinator's life all do.
- A request without a response waits in a group, and not longer than a rebalance may take.
- A member that sends requests or waits is not removed; one without heartbeats for a session is.
- A replaced or removed member, or one of another generation, gets errors only.
- A loaded group equals the group that was written.
"""

import json
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_group_member import ClassicGroupMember
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.coordinator.records.classic_group_records import GroupMetadataRecord
from headwater.coordinator.runtime.coordinator_effects import Effect, Reply, RequestEvent
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headwater.protocol.older_versions import Message

LONGEST_WAIT_MS = 22_000
"""The rebalance timeout of every member, the maximum delay of timers, and some margin."""

LATEST_TIMER_MS = 50

Place = str
"""The instance id of a static member, which keeps its place when it rejoins; else its member id."""


@dataclass(slots=True)
class ClassicWatch:
    generations: dict[str, int] = field(default_factory=dict)
    """Of each group in memory."""
    settled: dict[str, int] = field(default_factory=dict)
    """The newest generation of which a member got an assignment."""
    owners: dict[tuple[str, int, int], Place] = field(default_factory=dict)
    """By group, generation and partition."""
    fenced: dict[str, None] = field(default_factory=dict)
    """Member ids that were replaced."""
    last_request_ms: dict[str, int] = field(default_factory=dict)
    """Time of a member's last request that counts."""
    syncs: int = 0
    fences: int = 0

    def forget_memory(self) -> None:
        """A coordinator crashed; what it did not write need not hold any more."""
        self.generations.clear()
        self.fenced.clear()
        self.last_request_ms.clear()

    def decided(
        self,
        group: ClassicGroup,
        request: ClassicRequest,
        effects: list[Effect],
        asked: RequestEvent,
        instance_before: str | None,
    ) -> None:
        if instance_before is not None and all(
            member.member_id != instance_before for member in group.members
        ):
            self.fenced[instance_before] = None
            self.fences += 1
        for effect in effects:
            if isinstance(effect, Reply) and effect.to == asked.caller:
                self._check_standing(group, request, effect.response)
        for member in group.members:
            if asked in (member.joining, member.syncing) or (
                isinstance(request, HeartbeatRequest)
                and request.member_id == member.member_id
                and request.generation_id == group.generation
            ):
                self.last_request_ms[member.member_id] = asked.now_ms

    def _check_standing(
        self, group: ClassicGroup, request: ClassicRequest, response: Message
    ) -> None:
        match request:
            case HeartbeatRequest() | SyncGroupRequest():
                assert isinstance(response, HeartbeatResponse | SyncGroupResponse)
                known = any(member.member_id == request.member_id for member in group.members)
                if request.member_id in self.fenced or not known:
                    assert response.error_code, "one that is no member was answered like one"
                elif request.generation_id != group.generation:
                    assert response.error_code, "a stale generation was taken for the newest"
            case JoinGroupRequest():
                assert isinstance(response, JoinGroupResponse)
                if request.member_id in self.fenced:
                    assert response.error_code
            case LeaveGroupRequest():
                assert isinstance(response, LeaveGroupResponse)
                for identity, member in zip(request.members, response.members, strict=True):
                    assert identity.member_id not in self.fenced or member.error_code

    def written(self, record: GroupMetadataRecord) -> None:
        value = record.value
        assert value is not None
        group_id = record.key.group
        assert value.generation >= self.settled.get(group_id, 0), "a generation was settled late"
        owned: list[int] = []
        for member in value.members:
            owned += json.loads(member.assignment or b"[]")
        assert len(owned) == len(set(owned)), "a partition was written down for two"
        if value.members:
            assert value.leader in [member.member_id for member in value.members]

    def compare(self, *, live: ClassicGroup, loaded: ClassicGroup) -> None:
        if live.state_name == "PreparingRebalance":
            return
        assert live.describe() == loaded.describe()
        assert live.generation == loaded.generation

    def answered(self, asked: RequestEvent, response: Message) -> None:
        """A reply was sent, so what it says is committed."""
        request = asked.request
        if not isinstance(request, SyncGroupRequest):
            return
        assert isinstance(response, SyncGroupResponse)
        if response.error_code:
            return
        self.syncs += 1
        place = request.group_instance_id or request.member_id
        generation = request.generation_id
        self.settled[request.group_id] = max(self.settled.get(request.group_id, 0), generation)
        for partition in json.loads(response.assignment or b"[]"):
            key = (request.group_id, generation, partition)
            owner = self.owners.setdefault(key, place)
            assert owner == place, f"{key} belongs to {owner} and was given to {place}"

    def ended_session(self, group: ClassicGroup, before: ClassicGroupMember, now_ms: int) -> None:
        """A session timer fired; this is the member before that."""
        if any(member.member_id == before.member_id for member in group.members):
            return
        waited = before.joining is not None or before.syncing is not None
        if before.is_new and waited:
            # A new member has a fixed time from its first join on, however often it repeats it.
            return
        assert not waited, "one that waits was thrown out"
        silent_ms = now_ms - self.last_request_ms.get(before.member_id, 0)
        assert silent_ms >= before.session_timeout_ms, "one that talks was thrown out"

    def look(
        self, groups: tuple[ClassicGroup, ...], asked: list[RequestEvent], now_ms: int
    ) -> None:
        for group in groups:
            before = self.generations.get(group.group_id, 0)
            assert group.generation >= before, "a generation was taken back"
            self.generations[group.group_id] = group.generation
            for member in group.members:
                overdue_ms = now_ms - member.deadline_ms
                assert member.may_be_silent or overdue_ms <= LATEST_TIMER_MS, "a dead one stays"
        waiting = sorted(
            waiter.caller
            for group in groups
            for member in group.members
            for waiter in (member.joining, member.syncing)
            if waiter is not None
        )
        assert waiting == sorted(one.caller for one in asked), "a request was forgotten"
        for one in asked:
            assert now_ms - one.now_ms <= LONGEST_WAIT_MS, f"{one} waits for ever"


def is_fatal(error: ErrorCode) -> bool:
    """A consumer gives up after these errors."""
    return error in (
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    )

"""One classic group by hand: send requests, advance time, and see all effects.

The lab executes effects like a coordinator's runtime: in order, with a record replayed as soon as
it is appended. It asserts that no request is answered twice.
"""

import random
from collections.abc import Iterable

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.classic.classic_request_checks import check_request
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.coordinator.records.classic_group_records import GroupMetadataRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    CancelTimer,
    Effect,
    Reply,
    RequestEvent,
    SetTimer,
    TimerFired,
    TimerKey,
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
from tests.simulation.fakes.seeded_random import SeededRandom

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
NOON_MS = 43_200_000
LIMITS = ClassicLimits()


def protocols(*names: str, metadata: bytes = b"topics") -> tuple[JoinGroupRequestProtocol, ...]:
    return tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names)


def join_request(
    member_id: str = "",
    *,
    instance: str | None = None,
    offers: tuple[JoinGroupRequestProtocol, ...] = protocols("range"),
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=offers,
    )


class ClassicLab:
    def __init__(self, limits: ClassicLimits = LIMITS) -> None:
        self.limits = limits
        self.now_ms = NOON_MS
        self.log: list[GroupMetadataRecord] = []
        self.replies: dict[Caller, Message] = {}
        self.timers: dict[TimerKey, int] = {}
        self.can_write = True
        self.effects: list[Effect] = []
        """The effects of the last event."""
        self._callers = 0
        self._rng = SeededRandom(random.Random(7))
        self.group = ClassicGroup(GROUP, limits, self._rng)

    def ask(self, request: ClassicRequest, version: int = 9) -> Caller:
        self._callers += 1
        caller = Caller(self._callers)
        asked = RequestEvent(
            request=request,
            version=version,
            caller=caller,
            client_id="client",
            client_host="/10.0.0.1",
            now_ms=self.now_ms,
        )
        refusal = check_request(asked, request, self.limits)
        self.carry_out(refusal or self.group.decide(asked))
        return caller

    def carry_out(self, effects: list[Effect]) -> None:
        self.effects = effects
        failed = False
        for effect in effects:
            match effect:
                case Append():
                    failed = failed or not self.can_write
                    if not failed:
                        self._append(effect)
                case Reply():
                    assert effect.to not in self.replies, "answered twice"
                    self.replies[effect.to] = (
                        _not_now(effect.response) if failed else effect.response
                    )
                case SetTimer():
                    self.timers[effect.key] = effect.deadline_ms
                case CancelTimer():
                    self.timers.pop(effect.key, None)

    def pass_time(self, span_ms: int) -> None:
        """Fire timers at their time, one after the other."""
        end_ms = self.now_ms + span_ms
        while self.timers and min(self.timers.values()) <= end_ms:
            key = min(self.timers, key=lambda key: (self.timers[key], str(key)))
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.carry_out(self.group.decide(TimerFired(key, self.now_ms)))
        self.now_ms = end_ms

    def restart(self) -> None:
        """A new coordinator that only has the log."""
        self.group = ClassicGroup(GROUP, self.limits, self._rng)
        self.timers.clear()
        for record in self.log:
            self.group.replay(record)
        self.carry_out(self.group.loaded(self.now_ms))

    def join(self, member_id: str = "", version: int = 9, *, instance: str | None = None) -> Caller:
        return self.ask(join_request(member_id, instance=instance), version)

    def joined(self, caller: Caller) -> JoinGroupResponse:
        response = self.replies[caller]
        assert isinstance(response, JoinGroupResponse)
        return response

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Iterable[tuple[str, bytes]] = (),
        *,
        instance: str | None = None,
    ) -> Caller:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=who, assignment=what)
                for who, what in assignments
            ),
        )
        return self.ask(request, 4)

    def synced(self, caller: Caller) -> SyncGroupResponse:
        response = self.replies[caller]
        assert isinstance(response, SyncGroupResponse)
        return response

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        response = self.replies[self.ask(request, 4)]
        assert isinstance(response, HeartbeatResponse)
        return response.error_code

    def leave(self, *members: MemberIdentity) -> LeaveGroupResponse:
        request = LeaveGroupRequest(group_id=GROUP, members=members)
        response = self.replies[self.ask(request, 5)]
        assert isinstance(response, LeaveGroupResponse)
        return response

    def stable_group(self, size: int, instance: str | None = None) -> list[str]:
        """A group in generation 1 in which member number n has the assignment `b"n"`.

        The first is the leader, and it alone is static if an instance id is given.
        """
        leader = self.join(version=3) if instance is None else self.join(instance=instance)
        callers = [leader, *(self.join(version=3) for _ in range(1, size))]
        self.pass_time(DELAY_MS)
        self.pass_time(DELAY_MS)
        ids = [self.joined(caller).member_id for caller in callers]
        given = [(member_id, str(number).encode()) for number, member_id in enumerate(ids)]
        for member_id in reversed(ids):
            self.sync(member_id, 1, given if member_id == ids[0] else ())
        assert self.group.state_name == "Stable"
        return ids

    def _append(self, append: Append) -> None:
        for record in append.records:
            assert isinstance(record, GroupMetadataRecord)
            self.log.append(record)
            self.group.replay(record)


def _not_now(response: Message) -> Message:
    """What a runtime answers in place of a reply whose record could not be appended."""
    assert isinstance(
        response, JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse
    )
    return type(response)(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

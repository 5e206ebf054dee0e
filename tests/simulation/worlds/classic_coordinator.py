"""A coordinator of classic groups that crashes, with checks after every event.

It executes effects like the real runtime: a record is replayed as soon as it is appended, a reply
is sent when everything appended before it is committed, and a crash loses uncommitted records. A
failed check is an AssertionError.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.classic.classic_request_checks import (
    check_request,
    creates_group,
    reject_without_group,
)
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
from headwater.protocol.messages.heartbeat import HeartbeatResponse
from headwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headwater.protocol.messages.leave_group import LeaveGroupResponse
from headwater.protocol.messages.sync_group import SyncGroupResponse
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.fakes.virtual_time import Call, VirtualTime
from tests.simulation.worlds.classic_group_checks import ClassicWatch

COMMIT_MS = 15
DOWN_MS = 400


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that has no response yet."""

    call: Call
    asked: RequestEvent


@dataclass(slots=True)
class ClassicCoordinator:
    time: VirtualTime
    limits: ClassicLimits
    watch: ClassicWatch = field(default_factory=ClassicWatch)
    log: list[GroupMetadataRecord] = field(default_factory=list)
    committed: int = 0
    """Number of committed records of the log."""
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    timers: dict[TimerKey, int] = field(default_factory=dict)
    waiting: dict[Caller, Waiting] = field(default_factory=dict)
    held: dict[Caller, tuple[int, Message]] = field(default_factory=dict)
    """Replies that wait for the log to be committed up to a number."""
    is_up: bool = True
    life: int = 0
    _callers: int = 0

    def receive(self, request: ClassicRequest, version: int, client_id: str, call: Call) -> None:
        if not self.is_up:
            call.respond(None)
            return
        self._callers += 1
        asked = RequestEvent(
            request=request,
            version=version,
            caller=Caller(self._callers),
            client_id=client_id,
            client_host="/sim",
            now_ms=self.time.now_ms,
        )
        self.waiting[asked.caller] = Waiting(call, asked)
        self._carry_out(request.group_id, self._decide(asked, request))
        self._look_around()

    def crash(self) -> None:
        """Lose all memory and any uncommitted end of the log."""
        if not self.is_up:
            return
        kept = self.time.rand.randint(self.committed, len(self.log))
        self.time.say(f"coordinator crashes and loses {len(self.log) - kept} records")
        del self.log[kept:]
        self.committed = kept
        self.is_up = False
        self.life += 1
        for waiting in self.waiting.values():
            waiting.call.respond(None)
        for memory in (self.groups, self.timers, self.waiting, self.held):
            memory.clear()
        self.time.after(DOWN_MS, self._start)

    def _start(self) -> None:
        self.is_up = True
        self.watch.forget_memory()
        for record in self.log:
            self._group(record.key.group).replay(record)
        for group in self.groups.values():
            self._carry_out(group.group_id, group.loaded(self.time.now_ms))
        self.time.say(f"coordinator is back with {len(self.log)} records")

    def _decide(self, asked: RequestEvent, request: ClassicRequest) -> list[Effect]:
        refusal = check_request(asked, request, self.limits)
        if refusal:
            return refusal
        if request.group_id not in self.groups and not creates_group(request):
            return reject_without_group(asked, request)
        group = self._group(request.group_id)
        instance_before = _instance_holder(group, request)
        effects = group.decide(asked)
        self.watch.decided(group, request, effects, asked, instance_before)
        return effects

    def _group(self, group_id: str) -> ClassicGroup:
        if group_id not in self.groups:
            rng = SeededRandom(self.time.rand)
            self.groups[group_id] = ClassicGroup(group_id, self.limits, rng)
        return self.groups[group_id]

    def _carry_out(self, group_id: str, effects: list[Effect]) -> None:
        failed = False
        for effect in effects:
            match effect:
                case Append():
                    failed = self.time.happens(self.time.weather.failed_write)
                    if not failed:
                        self._append(group_id, effect)
                case Reply():
                    response = _not_now(effect.response) if failed else effect.response
                    self._hold(effect.to, response)
                case SetTimer():
                    self.timers[effect.key] = effect.deadline_ms
                    self._arm(effect.key, effect.deadline_ms)
                case CancelTimer():
                    self.timers.pop(effect.key, None)
        self._release()

    def _append(self, group_id: str, append: Append) -> None:
        for record in append.records:
            assert isinstance(record, GroupMetadataRecord)
            self.watch.written(record)
            self.log.append(record)
            self.groups[group_id].replay(record)
        fresh = ClassicGroup(group_id, self.limits, SeededRandom(self.time.rand))
        for record in self.log:
            if record.key.group == group_id:
                fresh.replay(record)
        self.watch.compare(live=self.groups[group_id], loaded=fresh)
        end = len(self.log)
        self._in_this_life(COMMIT_MS, lambda: self._commit(end))

    def _commit(self, end: int) -> None:
        self.committed = max(self.committed, end)
        self._release()

    def _hold(self, caller: Caller, response: Message) -> None:
        assert caller in self.waiting, "a reply to an unknown request"
        assert caller not in self.held, "answered twice"
        self.held[caller] = (len(self.log), response)

    def _release(self) -> None:
        for caller, (end, response) in tuple(self.held.items()):
            if end <= self.committed:
                del self.held[caller]
                waiting = self.waiting.pop(caller)
                self.watch.answered(waiting.asked, response)
                waiting.call.respond(response)

    def _arm(self, key: TimerKey, deadline_ms: int) -> None:
        """A timer fires a little late, and sometimes also early or twice."""
        left_ms = deadline_ms - self.time.now_ms
        self._in_this_life(left_ms + self.time.rand.randint(0, 30), lambda: self._fire(key, True))
        if self.time.happens(0.02):
            early_ms = self.time.rand.randint(0, max(left_ms, 0))
            self._in_this_life(early_ms, lambda: self._fire(key, False))

    def _fire(self, key: TimerKey, is_due: bool) -> None:
        deadline_ms = self.timers.get(key)
        if deadline_ms is None or (is_due and self.time.now_ms < deadline_ms):
            return
        if is_due:
            del self.timers[key]
        group = self.groups[str(key[1])]
        member = next((copy(m) for m in group.members if m.member_id == key[-1]), None)
        effects = group.decide(TimerFired(key, self.time.now_ms))
        if member is not None:
            self.watch.ended_session(group, member, self.time.now_ms)
        self._carry_out(group.group_id, effects)
        self._look_around()

    def _in_this_life(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self.life
        self.time.after(max(delay_ms, 0), lambda: action() if self.life == life else None)

    def _look_around(self) -> None:
        asked = [
            waiting.asked for caller, waiting in self.waiting.items() if caller not in self.held
        ]
        self.watch.look(tuple(self.groups.values()), asked, self.time.now_ms)


def _instance_holder(group: ClassicGroup, request: ClassicRequest) -> str | None:
    """The member id of a static instance that rejoins without it."""
    if not isinstance(request, JoinGroupRequest) or request.member_id:
        return None
    holders = [
        member.member_id
        for member in group.members
        if member.group_instance_id is not None
        and member.group_instance_id == request.group_instance_id
    ]
    return holders[0] if holders else None


def _not_now(response: Message) -> Message:
    """What a runtime answers in place of a reply whose record could not be appended."""
    assert isinstance(
        response, JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse
    )
    return type(response)(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

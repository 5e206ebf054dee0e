"""A simple classic consumer that joins, syncs, sends heartbeats and rejoins.

As leader it assigns partitions, eagerly or cooperatively. An eager consumer gives up all partitions
before it rejoins; a cooperative one keeps them, and a partition that is to move is not assigned
until its owner has given it up.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headwater.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headwater.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.virtual_time import Answer, Call, VirtualTime
from tests.simulation.worlds.classic_coordinator import ClassicCoordinator
from tests.simulation.worlds.classic_group_checks import is_fatal

SESSION_MS = 6_000
REBALANCE_MS = 20_000
BEAT_MS = 1_500
TIMEOUT_MS = 3_000
BACKOFF_MS = 100
PARTITIONS = 7


@dataclass(slots=True, eq=False)
class ClassicConsumer:
    time: VirtualTime
    coordinator: ClassicCoordinator
    name: str
    group_id: str
    version: int
    """Version of JoinGroup; the other APIs use matching ones."""
    instance: str | None
    is_cooperative: bool
    member_id: str = ""
    generation: int = -1
    owned: tuple[int, ...] = ()
    preference: int = 0
    """Part of its metadata; change it to make it rejoin."""
    is_alive: bool = True
    is_settled: bool = False
    _turn: int = 0
    """Responses to requests of an earlier turn are ignored."""

    def start(self) -> None:
        self._beat()
        self._join()

    def stop(self) -> None:
        """A dynamic member leaves, a static one just stops."""
        if self.is_alive and self.member_id and self.instance is None:
            identity = MemberIdentity(member_id=self.member_id)
            request = LeaveGroupRequest(group_id=self.group_id, members=(identity,))
            self._send(request, min(self.version, 5), lambda _: None, TIMEOUT_MS)
        self.die()

    def die(self) -> None:
        self.is_alive = False
        self.is_settled = False
        self._turn += 1

    def rejoin(self) -> None:
        """Rejoin on its own: there may be new partitions, or another subscription."""
        if self.is_alive and self.is_settled:
            self._prepare_to_join()

    # Joining.

    def _join(self) -> None:
        self._turn += 1
        self.is_settled = False
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=self._offers(),
        )
        self._ask(request, self.version, self._on_join, REBALANCE_MS + TIMEOUT_MS)

    def _offers(self) -> tuple[JoinGroupRequestProtocol, ...]:
        said = {"generation": self.generation, "owned": self.owned, "preference": self.preference}
        metadata = json.dumps(
            said if self.is_cooperative else {"preference": self.preference}
        ).encode()
        names = ["cooperative"] if self.is_cooperative else ["range", "roundrobin"]
        if self.preference % 3 == 1:
            names.reverse()
        return tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names)

    def _on_join(self, response: Message | None) -> None:
        if response is None:
            self._later(self._join)
            return
        assert isinstance(response, JoinGroupResponse)
        if response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._join()
        elif response.error_code:
            self._recover(response.error_code)
        else:
            self.member_id = response.member_id
            self.generation = response.generation_id
            self._pause(lambda: self._sync(self._assign(response), response.protocol_name))

    def _assign(self, response: JoinGroupResponse) -> tuple[SyncGroupRequestAssignment, ...]:
        if response.leader != response.member_id or response.skip_assignment:
            return ()
        said = {member.member_id: json.loads(member.metadata) for member in response.members}
        given = _cooperative(said) if self.is_cooperative else _in_turns(sorted(said))
        return tuple(
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=json.dumps(partitions).encode()
            )
            for member_id, partitions in given.items()
        )

    def _sync(
        self, assignments: tuple[SyncGroupRequestAssignment, ...], protocol: str | None
    ) -> None:
        self._turn += 1
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=protocol,
            assignments=assignments,
        )
        self._ask(request, min(self.version, 5), self._on_sync, REBALANCE_MS + TIMEOUT_MS)

    def _on_sync(self, response: Message | None) -> None:
        if response is None:
            self._later(self._join)
            return
        assert isinstance(response, SyncGroupResponse)
        if response.error_code:
            self._recover(response.error_code)
            return
        before, self.owned = self.owned, tuple(json.loads(response.assignment or b"[]"))
        self.is_settled = True
        self.time.say(f"{self.name} owns {list(self.owned)} in generation {self.generation}")
        if self.is_cooperative and any(partition not in self.owned for partition in before):
            self._join()

    # Membership.

    def _beat(self) -> None:
        if not self.is_alive:
            return
        self.time.after(BEAT_MS, self._beat)
        if self.member_id and self.generation >= 0:
            request = HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
            )
            turn = self._turn
            self._send(
                request,
                min(self.version, 4),
                lambda response: self._on_beat(response, turn),
                TIMEOUT_MS,
            )

    def _on_beat(self, response: Message | None, turn: int) -> None:
        if response is None or turn != self._turn or not self.is_settled:
            return
        assert isinstance(response, HeartbeatResponse)
        if response.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._prepare_to_join()
        elif response.error_code:
            self._recover(response.error_code)

    def _prepare_to_join(self) -> None:
        if not self.is_cooperative:
            self.owned = ()
        self.is_settled = False
        self._pause(self._join)

    def _recover(self, error: ErrorCode) -> None:
        self._turn += 1
        self.time.say(f"{self.name} gets {error.name}")
        if is_fatal(error):
            self.die()
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.owned = ()
            self.generation = -1
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.is_settled = False
        self._later(self._join)

    # Time and network.

    def _later(self, action: Callable[[], None]) -> None:
        self._guarded_after(BACKOFF_MS, action)

    def _pause(self, action: Callable[[], None]) -> None:
        """Work between two requests; a slow consumer exceeds the rebalance timeout."""
        is_slow = self.time.happens(self.time.weather.slowness)
        self._guarded_after(self.time.rand.randint(1, 40_000 if is_slow else 300), action)

    def _guarded_after(self, delay_ms: int, action: Callable[[], None]) -> None:
        turn = self._turn
        self.time.after(delay_ms, lambda: action() if self._turn == turn else None)

    def _ask(self, request: ClassicRequest, version: int, answer: Answer, patience_ms: int) -> None:
        turn = self._turn

        def guarded(response: Message | None) -> None:
            if self._turn == turn:
                answer(response)

        self._send(request, version, guarded, patience_ms)

    def _send(
        self, request: ClassicRequest, version: int, answer: Answer, patience_ms: int
    ) -> None:
        call = Call(self.time, answer)
        self.time.after(patience_ms, lambda: call.complete(None))
        self._deliver(request, version, call)
        if self.time.happens(self.time.weather.repeat):
            # An earlier try over a broken connection: its response is not received.
            self._deliver(request, version, Call(self.time, lambda _: None))

    def _deliver(self, request: ClassicRequest, version: int, call: Call) -> None:
        self.time.travel(lambda: self.coordinator.receive(request, version, self.name, call))


def _in_turns(member_ids: list[str]) -> dict[str, list[int]]:
    count = len(member_ids)
    return {
        member_id: list(range(number, PARTITIONS, count))
        for number, member_id in enumerate(member_ids)
    }


def _cooperative(said: dict[str, dict[str, object]]) -> dict[str, list[int]]:
    """Assign equal shares; a partition with another owner only once it was given up."""
    newest = max(generation_of(words) for words in said.values())
    owner = {
        partition: member_id
        for member_id, words in said.items()
        if generation_of(words) == newest
        for partition in owned_of(words)
    }
    wanted = _in_turns(sorted(said))
    return {
        member_id: [p for p in partitions if owner.get(p, member_id) == member_id]
        for member_id, partitions in wanted.items()
    }


def generation_of(words: dict[str, object]) -> int:
    generation = words["generation"]
    assert isinstance(generation, int)
    return generation


def owned_of(words: dict[str, object]) -> list[int]:
    owned = words["owned"]
    assert isinstance(owned, list)
    return owned

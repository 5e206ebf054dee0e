"""A cooperative classic consumer, like Java's and librdkafka's.

It reports its owned partitions when it joins, and keeps them meanwhile. It gives up partitions when
it gets its assignment, and then rejoins. As leader it never assigns a partition that another member
still owns.
"""

from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.consumer.classic_member_protocol import (
    ConsumerAssignment,
    NamedPartitions,
    read_assignment,
    read_subscription,
)
from headwater.coordinator.runtime.pending_responses import Outcome
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
from headwater.protocol.versioned_codec import codec_for
from tests.simulation.labs.consumer_group_lab import GROUP
from tests.simulation.labs.consumer_group_requests import subscription

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 20_000
PROTOCOL = "cooperative-sticky"
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5


@dataclass(slots=True)
class CooperativeClient:
    """`topic` has `partitions`, which are numbers here."""

    name: str
    topic: str
    partitions: int
    member_id: str = ""
    generation: int = -1
    owned: tuple[int, ...] = ()
    is_alive: bool = True
    is_settled: bool = False
    waiting: list[Outcome] | None = None
    """Outcome of the request in flight, if there is one."""
    _asked: Message | None = None
    _shares: tuple[SyncGroupRequestAssignment, ...] = ()
    _owes_sync: bool = field(default=False)

    def next_request(self) -> tuple[Message, int]:
        if self._owes_sync:
            request: Message = SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name=PROTOCOL,
                assignments=self._shares,
            )
            version = SYNC_VERSION
        elif self.is_settled:
            request = HeartbeatRequest(
                group_id=GROUP, generation_id=self.generation, member_id=self.member_id
            )
            version = HEARTBEAT_VERSION
        else:
            request, version = self._joining(), JOIN_VERSION
        self._asked = request
        return request, version

    def leaving(self) -> tuple[Message, int]:
        who = MemberIdentity(member_id=self.member_id)
        return LeaveGroupRequest(group_id=GROUP, members=(who,)), LEAVE_VERSION

    def on_response(self, outcome: Outcome) -> None:
        self.waiting = None
        match outcome:
            case JoinGroupResponse():
                self._on_join(outcome)
            case SyncGroupResponse():
                self._on_sync(outcome)
            case HeartbeatResponse():
                self._on_error(outcome.error_code)
            case _:
                self._join_again()

    def miss(self) -> None:
        """The request timed out."""
        self.waiting = None
        self._join_again()

    def die(self) -> None:
        self.is_alive, self.waiting = False, None

    def _joining(self) -> JoinGroupRequest:
        owned = {self.topic: self.owned} if self.owned else None
        protocol = JoinGroupRequestProtocol(
            name=PROTOCOL, metadata=subscription(self.topic, owned=owned)
        )
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(protocol,),
        )

    def _on_join(self, response: JoinGroupResponse) -> None:
        if response.error_code is not ErrorCode.NONE:
            if response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            self._on_error(response.error_code)
            return
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._owes_sync, self._shares = True, ()
        if response.leader == self.member_id:
            claims = {
                each.member_id: _owned_in(each.metadata, self.topic) for each in response.members
            }
            self._shares = tuple(
                SyncGroupRequestAssignment(
                    member_id=member_id, assignment=_assignment(self.topic, numbers)
                )
                for member_id, numbers in _shared_out(claims, self.partitions).items()
            )

    def _on_sync(self, response: SyncGroupResponse) -> None:
        self._owes_sync = False
        if response.error_code is not ErrorCode.NONE:
            self._on_error(response.error_code)
            return
        named = read_assignment(response.assignment).assigned_partitions
        given = tuple(sorted(number for each in named for number in each.partitions))
        has_given_up = any(number not in given for number in self.owned)
        self.owned = given
        self.is_settled = not has_given_up

    def _on_error(self, error: ErrorCode) -> None:
        match error:
            case ErrorCode.NONE:
                return
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id, self.generation, self.owned = "", -1, ()
            case ErrorCode.ILLEGAL_GENERATION:
                self.generation, self.owned = -1, ()
        self._join_again()

    def _join_again(self) -> None:
        self._owes_sync = self.is_settled = False


def _owned_in(metadata: bytes, topic: str) -> tuple[int, ...]:
    owned = read_subscription(metadata).owned_partitions
    return tuple(number for each in owned if each.topic == topic for number in each.partitions)


def _shared_out(claims: dict[str, tuple[int, ...]], count: int) -> dict[str, tuple[int, ...]]:
    """Assign evenly, but owned partitions to their owner and doubly claimed ones to none."""
    all_claims = [number for owned in claims.values() for number in owned]
    shares: dict[str, list[int]] = {}
    most = -(-count // len(claims))
    for member_id in sorted(claims):
        mine = [each for each in claims[member_id] if all_claims.count(each) == 1]
        shares[member_id] = sorted(mine)[:most]
    for number in range(count):
        if number not in all_claims:
            poorest = min(sorted(shares), key=lambda each: len(shares[each]))
            shares[poorest].append(number)
    return {member_id: tuple(numbers) for member_id, numbers in shares.items()}


def _assignment(topic: str, numbers: tuple[int, ...]) -> bytes:
    named = (NamedPartitions(topic=topic, partitions=numbers),)
    layout = codec_for(ConsumerAssignment, 1, flexible=False)
    (part,) = layout.write(ConsumerAssignment(assigned_partitions=named))
    assert isinstance(part, bytearray)
    return b"\0\1" + bytes(part)

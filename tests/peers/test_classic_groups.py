"""The classic group state machine compared with Apache Kafka, field by field.

The state machine is called without a broker. Its responses are encoded and decoded all the same, so
that fields that a version lacks are lost on both sides. Generated ids are replaced by names in the
order in which they appear, and members are sorted, since Kafka's have no order.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.classic.classic_responses import ClassicRequest
from headwater.coordinator.runtime.coordinator_effects import Caller
from headwater.protocol.codec import read, write
from headwater.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headwater.protocol.messages.find_coordinator import FindCoordinatorRequest
from headwater.protocol.messages.heartbeat import HeartbeatRequest
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headwater.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headwater.protocol.older_versions import Message
from headwater.protocol.send_parts import Part
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.raw_client import CLIENT_ID, RawClient
from tests.simulation.labs import classic_group_lab
from tests.simulation.labs.classic_group_lab import GROUP, ClassicLab

NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
TILL = "till-7"
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
"""Kafka does not go on with a rebalance when it cannot read one."""
M = TypeVar("M", bound=Message)


class Side(Protocol):
    """A group coordinator, and clients that each have a connection."""

    def send(self, person: str, request: ClassicRequest, version: int) -> None: ...

    def receive(self, person: str) -> Message: ...

    def describe(self) -> DescribedGroup: ...


class KafkaSide:
    def __init__(self, bootstrap_servers: str, group_id: str) -> None:
        self._servers = bootstrap_servers
        self._group_id = group_id
        self._people: dict[str, RawClient] = {}
        self._asked: dict[str, tuple[ClassicRequest, int]] = {}
        self._clerk = RawClient(bootstrap_servers)
        self._clerk.ask(FindCoordinatorRequest(coordinator_keys=(group_id,)), 4)
        # Not by a heartbeat: while Kafka loads its groups, it has nothing against one.
        while self._described().error_code in NOT_YET:
            pass

    def send(self, person: str, request: ClassicRequest, version: int) -> None:
        client = self._people.setdefault(person, RawClient(self._servers))
        self._asked[person] = (request, version)
        client.send(replace(request, group_id=self._group_id), version)

    def receive(self, person: str) -> Message:
        client = self._people[person]
        return client.read(*self._asked[person], client.receive())

    def _described(self) -> DescribedGroup:
        answer = self._clerk.ask(DescribeGroupsRequest(groups=(self._group_id,)), 5)
        assert isinstance(answer, DescribeGroupsResponse)
        (group,) = answer.groups
        return group

    def describe(self) -> DescribedGroup:
        group = self._described()
        return replace(
            group,
            group_id=GROUP,
            members=tuple(
                replace(m, client_host=m.client_host.replace("/127.0.0.1", "/10.0.0.1"))
                for m in group.members
            ),
        )

    def close(self) -> None:
        for client in (self._clerk, *self._people.values()):
            client.close()


class MachineSide:
    def __init__(self) -> None:
        self._lab = ClassicLab(ClassicLimits(initial_rebalance_delay_ms=0))
        self._asked: dict[str, tuple[Caller, int]] = {}

    def send(self, person: str, request: ClassicRequest, version: int) -> None:
        self._asked[person] = (self._lab.ask(_over_the_wire(request, version), version), version)
        self._lab.pass_time(0)

    def receive(self, person: str) -> Message:
        caller, version = self._asked[person]
        return _over_the_wire(self._lab.replies[caller], version)

    def describe(self) -> DescribedGroup:
        return self._lab.group.describe()


def _over_the_wire(message: M, version: int) -> M:
    sent = b"".join(_content(part) for part in write(message, version))
    return read(type(message), version, memoryview(sent))


def _content(part: Part) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview), "no such answer is sent from a file"
    return bytes(part)


class Talk:
    """Send requests for a scenario, and keep a transcript without generated ids."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.ids: dict[str, str] = {}
        self.transcript: list[str] = []

    def ask(self, person: str, request: ClassicRequest, version: int) -> Message:
        self.side.send(person, request, version)
        return self.receive(person)

    def receive(self, person: str) -> Message:
        response = self.side.receive(person)
        if isinstance(response, JoinGroupResponse):
            self._name(response.member_id, *(member.member_id for member in response.members))
            members = sorted(response.members, key=lambda member: self._named(member.member_id))
            response = replace(response, members=tuple(members))
        self.transcript.append(f"{person}: {self._named(repr(response))}")
        return response

    def joined(self, person: str, instance: str | None = None) -> str:
        """Both steps of a join; return the member id."""
        response = self.ask(person, join(instance=instance), 9)
        assert isinstance(response, JoinGroupResponse)
        return response.member_id

    def describe(self) -> None:
        group = self.side.describe()
        self._name(*(member.member_id for member in group.members))
        members = sorted(group.members, key=lambda member: self._named(member.member_id))
        text = self._named(repr(replace(group, members=tuple(members))))
        self.transcript.append(text.replace(f"'{CLIENT_ID}'", "'client'"))

    def until(self, state: str) -> None:
        """Wait until the coordinator has processed a request that is not answered yet."""
        while self.side.describe().group_state != state:
            pass

    def _name(self, *member_ids: str) -> None:
        for member_id in member_ids:
            if member_id:
                self.ids.setdefault(member_id, f"#{len(self.ids)}")

    def _named(self, text: str) -> str:
        for member_id, name in self.ids.items():
            text = text.replace(member_id, name)
        return text


def offers(*names: str) -> tuple[JoinGroupRequestProtocol, ...]:
    return classic_group_lab.protocols(*names, metadata=SUBSCRIPTION)


def join(
    member_id: str = "",
    *,
    instance: str | None = None,
    offered: tuple[JoinGroupRequestProtocol, ...] = offers("range"),
    protocol_type: str = "consumer",
) -> JoinGroupRequest:
    return classic_group_lab.join_request(
        member_id, instance=instance, offers=offered, protocol_type=protocol_type
    )


def beat(member_id: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
    )


def sync(
    member_id: str,
    generation: int,
    given: Iterable[tuple[str, bytes]] = (),
    *,
    instance: str | None = None,
    protocol: str | None = "range",
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocol_name=protocol,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=who, assignment=what) for who, what in given
        ),
    )


def leave(*members: MemberIdentity) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=GROUP, members=members)


def alone(talk: Talk) -> None:
    """One member through all states, with every error on the way."""
    me = talk.joined("ann")
    for version in (9, 5):
        talk.ask("bob", join("unknown"), version)
    talk.ask("ann", join(me), 9)
    talk.ask("ann", join(me), 9)
    talk.describe()
    talk.ask("ann", beat(me, 1), 4)
    for generation in (0, 2):
        talk.ask("ann", beat(me, generation), 4)
        talk.ask("ann", sync(me, generation), 5)
    talk.ask("ann", sync("unknown", 1), 5)
    talk.ask("ann", sync(me, 1, protocol="sticky"), 5)
    talk.ask("ann", sync(me, 1, protocol=None), 5)
    talk.ask("ann", beat("unknown", 1), 4)
    talk.ask("ann", sync(me, 1, [(me, b"all"), ("unknown", b"none")]), 5)
    talk.ask("ann", sync(me, 1), 3)
    talk.describe()
    for request in (
        join(protocol_type="connect"),
        join(offered=offers("sticky")),
        join(offered=()),
        join(me, offered=offers("sticky")),
        join(me, instance=TILL),
    ):
        for version in (9, 5):
            talk.ask("bob", request, version)
    talk.ask("ann", beat(me, 1, TILL), 4)
    talk.ask("ann", join(me), 9)
    talk.ask("ann", sync(me, 2), 5)
    talk.ask("bob", leave(MemberIdentity(member_id="unknown")), 1)
    talk.ask("bob", leave(MemberIdentity(), MemberIdentity(group_instance_id=TILL)), 4)
    talk.ask("ann", leave(MemberIdentity(member_id=me)), 2)
    talk.describe()
    talk.ask("ann", beat(me, 3), 4)
    talk.ask("ann", sync(me, 3), 5)
    talk.ask("ann", join(me), 9)
    talk.ask("ann", leave(MemberIdentity(member_id=me)), 5)


def together(talk: Talk) -> None:
    """Three members: a new one, one that changes its subscription, a static one that returns."""
    ann = talk.joined("ann")
    talk.ask("ann", join(ann), 9)
    talk.ask("ann", sync(ann, 1), 5)
    talk.side.send("bob", join(), 3)
    talk.until("PreparingRebalance")
    talk.describe()
    talk.ask("eve", beat(ann, 1), 4)
    talk.ask("eve", sync(ann, 1), 5)
    talk.ask("ann", join(ann), 9)
    joined = talk.receive("bob")
    assert isinstance(joined, JoinGroupResponse)
    bob = joined.member_id
    talk.describe()
    talk.side.send("bob", sync(bob, 2), 5)
    talk.side.send("till", join(instance=TILL), 9)
    talk.until("PreparingRebalance")
    talk.receive("bob")
    talk.side.send("ann", join(ann), 9)
    talk.ask("bob", join(bob), 9)
    talk.receive("ann")
    joined = talk.receive("till")
    assert isinstance(joined, JoinGroupResponse)
    old = joined.member_id
    talk.ask("ann", sync(ann, 3, [(ann, b"a"), (bob, b"b"), (old, b"t")]), 5)
    talk.ask("bob", sync(bob, 3), 5)
    talk.ask("till", sync(old, 3, instance=TILL), 5)
    talk.describe()
    talk.ask("bob", join(bob), 9)
    new = talk.joined("till", TILL)
    talk.ask("till", sync(new, 3, instance=TILL), 5)
    for version in (9, 6):
        talk.ask("eve", join(old, instance=TILL), version)
    talk.ask("eve", sync(old, 3, instance=TILL), 5)
    talk.ask("eve", beat(old, 3, TILL), 4)
    talk.ask("eve", beat(old, 3), 4)
    talk.ask("eve", leave(MemberIdentity(member_id=old, group_instance_id=TILL)), 5)
    talk.describe()
    talk.ask("eve", leave(MemberIdentity(member_id=bob), MemberIdentity(member_id=bob)), 5)
    talk.describe()
    talk.ask("eve", leave(MemberIdentity(group_instance_id=TILL)), 5)
    talk.ask("eve", leave(MemberIdentity(member_id=ann)), 5)
    talk.describe()


def static_leader(talk: Talk) -> None:
    """It rejoins in versions with and without skipAssignment."""
    first = talk.joined("till", TILL)
    talk.ask("till", sync(first, 1, [(first, b"all")], instance=TILL), 5)
    talk.ask("till", join(instance=TILL), 8)
    talk.ask("till", join(instance=TILL), 9)
    talk.ask("till", join(instance=TILL, offered=offers("range", "sticky")), 9)
    talk.ask("till", join(instance=TILL, offered=offers("sticky", "range")), 9)
    talk.describe()
    talk.ask("till", join(instance=TILL), 9)
    talk.describe()


@pytest.mark.parametrize("scenario", [alone, together, static_leader])
def test_classic_group_responses_are_those_of_kafka(
    scenario: Callable[[Talk], None], apache_kafka: ApacheKafka
) -> None:
    """GR-1 to GR-16."""
    machine = Talk(MachineSide())
    scenario(machine)
    side = KafkaSide(apache_kafka.bootstrap_servers, f"classic-{scenario.__name__}")
    kafka = Talk(side)
    try:
        scenario(kafka)
    finally:
        side.close()
    assert machine.transcript == kafka.transcript

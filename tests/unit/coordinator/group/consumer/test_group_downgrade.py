"""NG-10: a mixed group becomes classic when only classic members are left."""

from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.consumer.classic_member_protocol import read_assignment
from headwater.coordinator.group.consumer.consumer_group_settings import (
    ConsumerGroupSettings,
    MigrationPolicy,
)
from headwater.metadata.changes import TopicCreated
from headwater.metadata.cluster_image import PartitionRegistration, TopicImage
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
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
from headwater.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.simulation.labs.cluster_lab import after, lone_broker
from tests.simulation.labs.consumer_group_lab import GROUP
from tests.simulation.labs.consumer_group_requests import beat, joining, of, subscription
from tests.simulation.labs.group_lab import GroupLab

CLICKS = TopicId((1).to_bytes(16, "big"))
LEAVING, JOIN, SYNC, HEARTBEAT, LEAVE = -1, 9, 5, 4, 5


class DowngradeLab(GroupLab):
    """A topic of four partitions and members of both protocols."""

    def __init__(
        self,
        policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL,
        limits: ClassicLimits | None = None,
    ) -> None:
        partitions = tuple(_partition() for _ in range(4))
        topic = TopicImage(name="clicks", topic_id=CLICKS, partitions=partitions)
        super().__init__(
            limits=limits,
            image=after(lone_broker(), TopicCreated(topic)),
            consumer=ConsumerGroupSettings(migration_policy=policy),
        )

    def restart_with(self, policy: MigrationPolicy) -> None:
        settings = ConsumerGroupSettings(migration_policy=policy)
        self._making = replace(self._making, consumer=settings)
        self.restart()

    def beat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        return self.ask(request, ConsumerGroupHeartbeatResponse, 1)

    def join(
        self, member_id: str, *, owned: tuple[int, ...] = (), instance_id: str | None = None
    ) -> JoinGroupResponse:
        answers = self.send(joining_classic(member_id, owned, instance_id), JOIN)
        (answer,) = answers
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def sync(self, member_id: str, generation: int, instance_id: str | None = None) -> object:
        """The partitions of a member, or the error."""
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocol_name="cooperative-sticky",
        )
        answer = self.ask(request, SyncGroupResponse, SYNC)
        if answer.error_code is not ErrorCode.NONE:
            return answer.error_code
        named = read_assignment(answer.assignment).assigned_partitions
        return tuple(number for each in named for number in each.partitions)

    def classic_beat(self, member_id: str, generation: int) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        return self.ask(request, HeartbeatResponse, HEARTBEAT).error_code

    def kind(self) -> tuple[str, str]:
        (group,) = self.ask(ListGroupsRequest(), ListGroupsResponse, 5).groups
        return group.group_type, group.group_state

    def members(self) -> list[str]:
        request = DescribeGroupsRequest(groups=(GROUP,))
        (group,) = self.ask(request, DescribeGroupsResponse, 5).groups
        return [each.member_id for each in group.members]

    def mix(self) -> None:
        """A stable group: consumer `new` with partitions 0 and 1, classic `old` with 2 and 3."""
        self.beat(joining("new", "clicks"))
        assert self.join("old").generation_id == 2
        assert self.sync("old", 2) == ()
        self.beat(beat("new", 1))
        self.beat(beat("new", 1, of(CLICKS, 0, 1)))
        assert self.join("old").generation_id == 2
        assert self.sync("old", 2) == (2, 3)
        assert self.kind() == ("consumer", "Stable")


def _partition() -> PartitionRegistration:
    return PartitionRegistration(
        replicas=(NodeId(0),), isr=(NodeId(0),), leader=NodeId(0), leader_epoch=0
    )


def joining_classic(
    member_id: str, owned: tuple[int, ...] = (), instance_id: str | None = None
) -> JoinGroupRequest:
    metadata = subscription("clicks", owned={"clicks": owned} if owned else None)
    protocol = JoinGroupRequestProtocol(name="cooperative-sticky", metadata=metadata)
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(protocol,),
    )


def test_when_the_last_consumer_protocol_member_leaves_the_others_rebalance() -> None:
    lab = DowngradeLab()
    lab.mix()
    assert lab.beat(beat("new", LEAVING)).error_code is ErrorCode.NONE
    assert lab.kind() == ("classic", "PreparingRebalance")
    assert lab.classic_beat("old", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = lab.join("old", owned=(2, 3))
    assert (joined.generation_id, joined.leader, joined.protocol_name) == (
        3,
        "old",
        "cooperative-sticky",
    )


def test_a_coordinator_that_fails_during_a_downgrade_has_its_successor_rebalance() -> None:
    """Otherwise the partitions of the member that left would not be read. Kafka waits for the next
    rebalance.
    """
    lab = DowngradeLab()
    lab.mix()
    lab.beat(beat("new", LEAVING))
    lab.restart()
    assert lab.kind() == ("classic", "PreparingRebalance")
    assert lab.members() == ["old"]
    assert lab.classic_beat("old", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.join("old", owned=(2, 3)).generation_id == 3


def test_an_expired_consumer_protocol_member_triggers_a_downgrade() -> None:
    lab = DowngradeLab()
    lab.mix()
    for _ in range(9):
        lab.pass_time(5_000)
        assert lab.classic_beat("old", 2) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert lab.kind() == ("classic", "PreparingRebalance")
    lab.pass_time(9_000)
    assert lab.members() == ["old"], "its session went on"
    lab.pass_time(2_000)
    assert lab.members() == []


def test_removing_a_classic_member_may_leave_a_classic_group() -> None:
    """The policy was another one when the last consumer-protocol member left."""
    lab = DowngradeLab(MigrationPolicy.UPGRADE)
    lab.mix()
    lab.join("third")
    lab.beat(beat("new", LEAVING))
    assert lab.kind()[0] == "consumer"
    lab.restart_with(MigrationPolicy.BIDIRECTIONAL)
    request = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id="third"),))
    answer = lab.ask(request, LeaveGroupResponse, LEAVE)
    assert answer.members[0].error_code is ErrorCode.NONE
    assert lab.kind() == ("classic", "PreparingRebalance")


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_the_migration_policy_may_forbid_a_downgrade(policy: MigrationPolicy) -> None:
    lab = DowngradeLab(policy)
    lab.mix()
    lab.beat(beat("new", LEAVING))
    assert lab.kind()[0] == "consumer"
    assert lab.classic_beat("old", 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_too_large_for_the_classic_protocol_is_not_downgraded() -> None:
    lab = DowngradeLab(limits=ClassicLimits(initial_rebalance_delay_ms=0, max_size=1))
    lab.mix()
    lab.join("third")
    lab.beat(beat("new", LEAVING))
    assert lab.kind()[0] == "consumer"


def test_a_group_whose_last_member_leaves_keeps_its_type() -> None:
    lab = DowngradeLab()
    lab.beat(joining("new", "clicks"))
    lab.beat(beat("new", LEAVING))
    assert lab.kind() == ("consumer", "Empty")


def test_a_static_member_that_rejoins_with_the_classic_protocol_causes_no_rebalance() -> None:
    lab = DowngradeLab()
    lab.beat(joining("new", "clicks", instance_id="till"))
    joined = lab.join("", instance_id="till")
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
    assert lab.kind() == ("classic", "Stable")
    assert lab.sync(joined.member_id, 1, "till") == (0, 1, 2, 3)
    lab.restart()
    assert lab.sync(joined.member_id, 1, "till") == (0, 1, 2, 3)


def test_a_static_member_that_rejoins_during_reconciliation_starts_a_rebalance() -> None:
    """Otherwise it might get partitions that another has not revoked."""
    lab = DowngradeLab()
    lab.beat(joining("new", "clicks", instance_id="till"))
    lab.join("old")
    assert lab.sync("old", 2) == ()
    joined = lab.join("", instance_id="till")
    assert lab.kind() == ("classic", "PreparingRebalance")
    answer = lab.sync(joined.member_id, joined.generation_id, "till")
    assert answer in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


def test_a_downgrade_that_cannot_be_written_has_no_effect() -> None:
    lab = DowngradeLab()
    lab.mix()
    lab.log.append_errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert lab.send(beat("new", LEAVING), 1) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert lab.kind() == ("consumer", "Stable")
    assert lab.classic_beat("old", 2) is ErrorCode.NONE
    assert lab.beat(beat("new", 2)).error_code is ErrorCode.NONE
    lab.beat(beat("new", LEAVING))
    assert lab.kind() == ("classic", "PreparingRebalance")

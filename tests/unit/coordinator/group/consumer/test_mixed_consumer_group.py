"""NG-10: classic-protocol members in a consumer group, and upgrades."""

from struct import pack

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.common.ids import TopicId
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.consumer import consumer_group_record_values as record_values
from headwater.coordinator.group.consumer.classic_member_protocol import (
    NamedPartitions,
    ids_of,
    read_assignment,
    read_subscription,
    write_assignment,
)
from headwater.coordinator.group.consumer.consumer_group_settings import (
    ConsumerGroupSettings,
    MigrationPolicy,
)
from headwater.coordinator.group.consumer.group_upgrade import may_upgrade, upgrade
from headwater.coordinator.group.consumer.mixed_consumer_group import MixedConsumerGroup
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from headwater.coordinator.records.consumer_group_records import ConsumerGroupRecord
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    Effect,
    Reply,
    RequestEvent,
)
from headwater.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
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
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headwater.protocol.older_versions import Message
from tests.simulation.labs.cluster_lab import rng
from tests.simulation.labs.consumer_group_lab import GROUP, GroupLab
from tests.simulation.labs.consumer_group_requests import beat, joining, of, subscription, told

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5


class MixedLab(GroupLab):
    """A group that both kinds of members may join."""

    def _new_group(self) -> MixedConsumerGroup:
        return MixedConsumerGroup(
            GROUP,
            settings=self._settings,
            rng=self._rng,
            image=self._current_image,
            downgrading=lambda _remainder, _now_ms: None,
        )

    def ask(self, request: Message, version: int) -> Message:
        (reply,) = self.carry_out(self.group.decide(asked(self, request, version)))
        return reply.response

    def join(
        self,
        member_id: str,
        *topics: str,
        owned: dict[str, tuple[int, ...]] | None = None,
        protocol: str = "cooperative-sticky",
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(
                JoinGroupRequestProtocol(
                    name=protocol, metadata=subscription(*topics, owned=owned)
                ),
            ),
        )
        response = self.ask(request, JOIN)
        assert isinstance(response, JoinGroupResponse)
        return response

    def sync(self, member_id: str, generation: int) -> tuple[NamedPartitions, ...] | ErrorCode:
        request = SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        response = self.ask(request, SYNC)
        assert isinstance(response, SyncGroupResponse)
        if response.error_code is not ErrorCode.NONE:
            return response.error_code
        return read_assignment(response.assignment).assigned_partitions

    def classic_beat(self, member_id: str, generation: int) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        response = self.ask(request, HEARTBEAT)
        assert isinstance(response, HeartbeatResponse)
        return response.error_code


def asked(lab: GroupLab, request: Message, version: int) -> RequestEvent:
    return RequestEvent(
        request=request,
        version=version,
        caller=Caller(1),
        client_id="tester",
        client_host="/127.0.0.1",
        now_ms=lab.now_ms,
    )


def named(topic: str, *partitions: int) -> tuple[NamedPartitions, ...]:
    return (NamedPartitions(topic=topic, partitions=partitions),)


def test_both_kinds_share_the_partitions() -> None:
    lab = MixedLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("new", "clicks"))
    joined = lab.join("old", "clicks")
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.NONE, 2, "")
    assert lab.sync("old", 2) == ()
    assert lab.heartbeat(beat("new", 1)) == told(1, of(clicks, 0), "new")
    assert lab.heartbeat(beat("new", 1, of(clicks, 0))) == told(2, None, "new")
    assert lab.classic_beat("old", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.join("old", "clicks").generation_id == 2
    assert lab.sync("old", 2) == named("clicks", 1)
    assert lab.classic_beat("old", 2) is ErrorCode.NONE


def test_a_classic_member_revokes_before_it_advances() -> None:
    """NG-3: it reports its owned partitions when it joins."""
    lab = MixedLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("new", "clicks"))
    lab.heartbeat(beat("new", -1))
    lab.join("old", "clicks")
    assert lab.sync("old", 3) == named("clicks", 0, 1)
    assert lab.heartbeat(joining("new", "clicks")) == told(4, (), "new")
    assert lab.classic_beat("old", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.sync("old", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.join("old", "clicks", owned={"clicks": (0, 1)}).generation_id == 3
    assert lab.sync("old", 3) == named("clicks", 0)
    assert lab.heartbeat(beat("new", 4)) == told(4, None, "new")
    assert lab.join("old", "clicks", owned={"clicks": (0,)}).generation_id == 4
    assert lab.sync("old", 4) == named("clicks", 0)
    assert lab.heartbeat(beat("new", 4)) == told(4, of(clicks, 1), "new")


def test_a_classic_member_that_does_not_rejoin_is_removed() -> None:
    lab = MixedLab()
    lab.create_topic("clicks", 2)
    lab.join("old", "clicks")
    lab.sync("old", 1)
    lab.heartbeat(joining("new", "clicks"))
    for _ in range(6):
        lab.classic_beat("old", 1)
        lab.heartbeat(beat("new", 2))
        lab.pass_time(5_000)
    assert sorted(lab.group.state.members) == ["new"]


def test_a_classic_member_that_joins_and_never_syncs_is_removed() -> None:
    lab = MixedLab()
    lab.create_topic("clicks", 2)
    lab.join("old", "clicks")
    for _ in range(6):
        lab.classic_beat("old", 1)
        lab.pass_time(5_000)
    assert lab.group.is_empty


def test_a_classic_member_has_its_own_session_timeout() -> None:
    lab = MixedLab()
    lab.join("old", "clicks")
    lab.sync("old", 1)
    lab.pass_time(9_999)
    assert "old" in lab.group.state.members
    lab.pass_time(1)
    assert lab.group.is_empty


def test_the_first_join_must_come_back_with_a_member_id() -> None:
    """GR-2."""
    response = MixedLab().join("", "clicks")
    assert response.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert len(response.member_id) == 22


def test_an_unsupported_protocol_is_rejected() -> None:
    """GR-3."""
    lab = MixedLab()
    lab.join("old", "clicks")
    other = lab.join("older", "clicks", protocol="range")
    assert other.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_only_classic_members_with_their_generation_get_classic_responses() -> None:
    lab = MixedLab()
    lab.heartbeat(joining("new", "clicks"))
    lab.join("old", "clicks")
    assert lab.classic_beat("new", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.sync("unknown", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.classic_beat("old", 7) is ErrorCode.ILLEGAL_GENERATION


def test_a_classic_member_leaves_with_leave_group() -> None:
    """GR-13."""
    lab = MixedLab()
    lab.heartbeat(joining("new", "clicks"))
    lab.join("old", "clicks")
    identities = (MemberIdentity(member_id="old"), MemberIdentity(member_id="new"))
    response = lab.ask(LeaveGroupRequest(group_id=GROUP, members=identities), LEAVE)
    assert isinstance(response, LeaveGroupResponse)
    assert [each.error_code for each in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert sorted(lab.group.state.members) == ["new"]


def test_an_upgraded_classic_member_keeps_its_place() -> None:
    """The static instance rejoins with the consumer protocol."""
    lab = MixedLab()
    lab.create_topic("clicks", 1)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        group_instance_id="i",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription("clicks")),),
    )
    first = lab.ask(request, JOIN)
    assert isinstance(first, JoinGroupResponse)
    assert first.generation_id == 1
    response = lab.heartbeat(joining("b", "clicks", instance_id="i"))
    assert (response.member_epoch, list(lab.group.state.members)) == (1, ["b"])
    assert lab.group.state.members["b"].classic is None


def classic_group(lab: GroupLab, **assignments: bytes) -> ClassicGroup:
    """A stable classic group as in its record."""
    group = ClassicGroup(GROUP, ClassicLimits(), rng())
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="old",
        members=tuple(
            MemberMetadata(
                member_id=member_id,
                client_id="tester",
                client_host="/127.0.0.1",
                rebalance_timeout=30_000,
                session_timeout=10_000,
                subscription=subscription("clicks"),
                assignment=assignment,
            )
            for member_id, assignment in assignments.items()
        ),
    )
    group.replay(GroupMetadataRecord(GroupMetadataKey(group=GROUP), value))
    group.loaded(lab.now_ms)
    return group


def bytes_of(lab: GroupLab, clicks: TopicId, *partitions: int) -> bytes:
    return write_assignment(record_values.partitions_of(of(clicks, *partitions)), 1, lab.image)


def upgraded(lab: MixedLab, group: ClassicGroup) -> list[Effect]:
    sketch = MixedLab().group
    sketch.image = lab.group.image
    effects = upgrade(group, sketch, asked(lab, joining("new", "clicks"), 1), lab.image)
    assert effects is not None
    return effects


def test_a_live_classic_group_is_upgraded_by_its_first_consumer_protocol_member() -> None:
    lab = MixedLab()
    clicks = lab.create_topic("clicks", 3)
    group = classic_group(lab, old=bytes_of(lab, clicks, 0, 1), older=bytes_of(lab, clicks, 2))
    effects = upgraded(lab, group)
    (batch,) = [each for each in effects if isinstance(each, Append)]
    assert batch.records[0] == group.tombstones()[0]
    for record in batch.records[1:]:
        assert isinstance(record, ConsumerGroupRecord)
        lab.group.replay(record)
    (reply,) = [each.response for each in effects if isinstance(each, Reply)]
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    assert (reply.error_code, reply.member_epoch) == (ErrorCode.NONE, 6)
    assert sorted(lab.group.state.members) == ["new", "old", "older"]
    assert lab.group.state.members["old"].assigned == record_values.partitions_of(of(clicks, 0, 1))
    assert lab.classic_beat("old", 5) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.join("old", "clicks", protocol="range").generation_id == 6
    assert lab.sync("old", 6) == named("clicks", 0)
    assert lab.heartbeat(beat("new", 6)) == told(6, of(clicks, 1), "new")


def test_of_a_partition_assigned_twice_one_member_keeps_it() -> None:
    lab = MixedLab()
    clicks = lab.create_topic("clicks", 1)
    both = bytes_of(lab, clicks, 0)
    for record in upgraded(lab, classic_group(lab, old=both, older=both)):
        if isinstance(record, Append):
            for each in record.records[1:]:
                assert isinstance(each, ConsumerGroupRecord)
                lab.group.replay(each)
    assert lab.group.state.owners == dict.fromkeys(
        record_values.partitions_of(of(clicks, 0)), "old"
    )


def test_a_group_with_unreadable_metadata_is_not_upgraded() -> None:
    lab = MixedLab()
    group = classic_group(lab, old=b"\x00")
    request = asked(lab, joining("new", "clicks"), 1)
    assert upgrade(group, MixedLab().group, request, lab.image) is None


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_migration_policy_decides_about_upgrades(policy: MigrationPolicy) -> None:
    group = classic_group(GroupLab(), old=b"")
    allowed = policy in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)
    assert may_upgrade(group, ConsumerGroupSettings(migration_policy=policy)) is allowed
    full = ConsumerGroupSettings(migration_policy=policy, max_size=0)
    assert not may_upgrade(group, full)


def test_newer_subscription_versions_are_read_as_far_as_known() -> None:
    """A rack and more after it."""
    metadata = subscription("clicks", owned={"views": (1,)})[2:] + pack(">ih", 4, -1) + b"more"
    read = read_subscription(pack(">h", 9) + metadata)
    assert (read.topics, read.generation_id) == (("clicks",), 4)
    assert read.owned_partitions == named("views", 1)
    assert ids_of(read.owned_partitions, GroupLab().image) == frozenset()
    with pytest.raises(ProtocolError):
        read_subscription(b"\x00")

"""A classic group: records, restarts, description, offsets."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_group_member import session_timer
from headwater.coordinator.group.classic.classic_group_state import TRANSITIONS, ClassicGroupState
from headwater.coordinator.group.classic.classic_subscribed_topics import subscribed_topics
from headwater.coordinator.group.group import Group, GroupType
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from headwater.coordinator.runtime.coordinator_effects import SetTimer
from headwater.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from headwater.protocol.messages.leave_group import MemberIdentity
from tests.simulation.labs.classic_group_lab import (
    DELAY_MS,
    GROUP,
    SESSION_MS,
    ClassicLab,
    join_request,
    protocols,
)

READS_ORDERS = b"\x00\x01\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"


@pytest.fixture
def lab() -> ClassicLab:
    return ClassicLab()


def commit(
    group: Group,
    member_id: str = "",
    generation: int = -1,
    *,
    is_transactional: bool = False,
) -> ErrorCode | None:
    return group.validate_commit(
        member_id=member_id,
        group_instance_id=None,
        generation_or_epoch=generation,
        is_transactional=is_transactional,
        version=8,
    )


def test_a_group_becomes_stable_by_a_sync_only_and_empty_by_a_rebalance_only() -> None:
    """GR-1."""
    assert TRANSITIONS[ClassicGroupState.DEAD] == ()
    leads_to = {state: set(following) for state, following in TRANSITIONS.items()}
    assert [
        state for state in ClassicGroupState if ClassicGroupState.STABLE in leads_to[state]
    ] == [ClassicGroupState.COMPLETING_REBALANCE]
    assert [state for state in ClassicGroupState if ClassicGroupState.EMPTY in leads_to[state]] == [
        ClassicGroupState.PREPARING_REBALANCE
    ]


def test_a_stable_group_survives_a_coordinator_restart(lab: ClassicLab) -> None:
    """GR-17: with new sessions."""
    leader, follower = lab.stable_group(2)
    before = lab.group.describe()
    lab.pass_time(SESSION_MS - 1)
    lab.restart()
    assert lab.effects == [
        SetTimer(session_timer(GROUP, leader), lab.now_ms + SESSION_MS),
        SetTimer(session_timer(GROUP, follower), lab.now_ms + SESSION_MS),
    ]
    assert lab.group.describe() == before
    assert lab.heartbeat(follower, 1) is ErrorCode.NONE
    assert lab.synced(lab.sync(follower, 1)).assignment == b"1"


def test_a_rebalance_does_not_survive_a_coordinator_restart(lab: ClassicLab) -> None:
    """GR-17: the group is as in its last record."""
    leader, follower = lab.stable_group(2)
    callers = [lab.join(leader), lab.join(follower)]
    assert {lab.joined(caller).generation_id for caller in callers} == {2}
    lab.restart()
    assert (lab.group.state_name, lab.group.generation) == ("Stable", 1)
    assert lab.synced(lab.sync(leader, 2)).error_code is ErrorCode.ILLEGAL_GENERATION


def test_a_loaded_group_answers_like_the_one_that_wrote_it(lab: ClassicLab) -> None:
    """Replay is the same live and while loading: members keep their order."""
    ids = lab.stable_group(3, instance="till-7")
    live = lab.group
    lab.restart()
    assert lab.group.describe() == live.describe()
    assert [member.member_id for member in lab.group.members] == ids


def test_later_records_replace_earlier_ones(lab: ClassicLab) -> None:
    leader, follower = lab.stable_group(2)
    request = join_request(leader, offers=protocols("range", metadata=b"others"), session_ms=7_000)
    lab.ask(request)
    lab.join(follower)
    lab.sync(leader, 2, [(leader, b"new")])
    live = lab.group.describe()
    lab.restart()
    assert lab.group.describe() == live
    assert lab.group.members[0].session_timeout_ms == 7_000


def test_a_record_without_a_rebalance_timeout_uses_the_session_timeout(lab: ClassicLab) -> None:
    """GR-4."""
    member = MemberMetadata(member_id="me", session_timeout=8_000)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="me", members=(member,)
    )
    lab.group.replay(GroupMetadataRecord(GroupMetadataKey(group=GROUP), value))
    assert lab.group.members[0].rebalance_timeout_ms == 8_000


def test_the_leader_is_the_one_in_the_record(lab: ClassicLab) -> None:
    """GR-6: not the first of its members."""
    members = tuple(MemberMetadata(member_id=name, session_timeout=8_000) for name in ("a", "b"))
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="b", members=members
    )
    lab.group.replay(GroupMetadataRecord(GroupMetadataKey(group=GROUP), value))
    offers = protocols("range", metadata=b"")
    assert lab.joined(lab.ask(join_request("a", offers=offers))).leader == "b"


def test_an_empty_group_survives_a_coordinator_restart(lab: ClassicLab) -> None:
    (leader,) = lab.stable_group(1)
    lab.leave(MemberIdentity(member_id=leader))
    lab.restart()
    assert (lab.group.state_name, lab.group.generation) == ("Empty", 2)
    newcomer = lab.join(version=3)
    lab.pass_time(DELAY_MS)
    assert lab.joined(newcomer).generation_id == 3


def test_the_record_of_a_new_group_does_not_undo_its_first_join(lab: ClassicLab) -> None:
    """It is written when a rebalance has already started."""
    lab.join(version=3)
    assert len(lab.log) == 1
    assert lab.group.state_name == "PreparingRebalance"
    assert len(lab.group.members) == 1


def test_a_group_whose_first_record_failed_is_written_later(lab: ClassicLab) -> None:
    lab.can_write = False
    first = lab.join(version=3)
    lab.can_write = True
    lab.pass_time(DELAY_MS)
    leader = lab.joined(first).member_id
    lab.join(version=4)
    assert lab.log == []
    lab.sync(leader, 1, [(leader, b"all")])
    assert lab.group.state_name == "Stable"
    assert len(lab.log) == 1


def test_waiting_requests_are_answered_when_the_coordinator_moves(lab: ClassicLab) -> None:
    """GR-17."""
    leader, follower = lab.stable_group(2)
    joining = lab.join(leader)
    lab.carry_out(lab.group.close(ErrorCode.NOT_COORDINATOR))
    assert lab.joined(joining).error_code is ErrorCode.NOT_COORDINATOR
    assert lab.joined(joining).member_id == leader
    lab.restart()
    lab.join(leader)
    lab.join(follower)
    syncing = lab.sync(follower, 2)
    lab.carry_out(lab.group.close(ErrorCode.NOT_COORDINATOR))
    assert lab.synced(syncing).error_code is ErrorCode.NOT_COORDINATOR
    lab.pass_time(10 * SESSION_MS)
    assert lab.group.state_name == "Dead"


def test_a_stable_group_is_described_with_its_protocol_and_metadata(lab: ClassicLab) -> None:
    """GR-16."""
    leader, follower = lab.stable_group(2)

    def member(member_id: str, assignment: bytes, metadata: bytes) -> DescribedGroupMember:
        return DescribedGroupMember(
            member_id=member_id,
            client_id="client",
            client_host="/10.0.0.1",
            member_metadata=metadata,
            member_assignment=assignment,
        )

    assert lab.group.describe() == DescribedGroup(
        group_id=GROUP,
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=(member(leader, b"0", b"topics"), member(follower, b"1", b"topics")),
    )
    lab.join(leader)
    assert lab.group.describe() == DescribedGroup(
        group_id=GROUP,
        group_state="PreparingRebalance",
        protocol_type="consumer",
        members=(member(leader, b"0", b""), member(follower, b"1", b"")),
    )


def test_members_may_commit_except_during_the_sync_phase(
    lab: ClassicLab,
) -> None:
    """GR-11."""
    assert commit(lab.group) is None
    leader, follower = lab.stable_group(2)
    assert commit(lab.group, leader, 1) is None
    assert commit(lab.group, leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit(lab.group, leader, -1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(lab.group, "unknown", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(lab.group) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(lab.group, is_transactional=True) is None
    lab.join(leader)
    assert commit(lab.group, follower, 1) is None
    lab.join(follower)
    assert commit(lab.group, leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit(lab.group, leader, 2, is_transactional=True) is None
    lab.carry_out(lab.group.close(ErrorCode.NOT_COORDINATOR))
    assert commit(lab.group, leader, 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_commit_extends_the_session(lab: ClassicLab) -> None:
    """GR-11."""
    (leader,) = lab.stable_group(1)
    for _ in range(3):
        lab.pass_time(SESSION_MS - 1)
        lab.carry_out(lab.group.offsets_committed(leader, lab.now_ms))
    assert lab.heartbeat(leader, 1) is ErrorCode.NONE
    assert lab.group.offsets_committed("unknown", lab.now_ms) == []


def test_only_an_empty_group_may_be_deleted(lab: ClassicLab) -> None:
    """GR-16, GR-18."""
    assert lab.group.validate_delete() is None
    (leader,) = lab.stable_group(1)
    assert lab.group.validate_delete() is ErrorCode.NON_EMPTY_GROUP
    lab.leave(MemberIdentity(member_id=leader))
    assert lab.group.validate_delete() is None
    (tombstone,) = lab.group.tombstones()
    assert tombstone == GroupMetadataRecord(GroupMetadataKey(group=GROUP), None)
    lab.group.replay(tombstone)
    assert lab.group.validate_delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert lab.group.validate_fetch(member_id=None, member_epoch=-1) is (
        ErrorCode.GROUP_ID_NOT_FOUND
    )


def test_offsets_of_topics_without_subscribers_may_be_deleted(lab: ClassicLab) -> None:
    offers = protocols("range", metadata=READS_ORDERS)
    caller = lab.ask(join_request(offers=offers), 3)
    lab.pass_time(DELAY_MS)
    lab.sync(lab.joined(caller).member_id, 1)
    assert lab.group.validate_offset_delete() is None
    assert lab.group.is_subscribed_to("orders")
    assert not lab.group.is_subscribed_to("payments")
    lab.restart()
    assert lab.group.is_subscribed_to("orders")
    assert not lab.group.is_subscribed_to("payments")


def test_an_unreadable_subscription_counts_as_subscribed_to_all_topics(lab: ClassicLab) -> None:
    lab.stable_group(1)
    assert lab.group.is_subscribed_to("payments")


def test_other_protocol_types_do_not_reveal_their_topics(lab: ClassicLab) -> None:
    lab.ask(join_request(protocol_type="connect"), 3)
    assert lab.group.validate_offset_delete() is ErrorCode.NON_EMPTY_GROUP
    assert not lab.group.is_subscribed_to("orders")


def test_retention_starts_when_the_group_becomes_empty(lab: ClassicLab) -> None:
    """OE-1."""
    assert lab.group.retention_begins_ms(5) == 5
    offers = protocols("range", metadata=READS_ORDERS)
    caller = lab.ask(join_request(offers=offers), 3)
    assert lab.group.retention_begins_ms(5) is None
    lab.pass_time(DELAY_MS)
    leader = lab.joined(caller).member_id
    assert lab.group.retention_begins_ms(5) is None
    lab.sync(leader, 1)
    assert lab.group.retention_begins_ms(5) == 5
    lab.leave(MemberIdentity(member_id=leader))
    assert lab.group.retention_begins_ms(5) == lab.now_ms
    lab.restart()
    assert lab.group.retention_begins_ms(5) == lab.now_ms


def test_a_classic_group_implements_the_group_interface() -> None:
    group: Group = ClassicLab().group
    assert isinstance(group, ClassicGroup)
    assert (group.group_id, group.group_type) == (GROUP, GroupType.CLASSIC)
    assert (group.state_name, group.protocol_type, group.is_empty) == ("Empty", "", True)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x00",
        READS_ORDERS[:9],
        b"\x00\x01\xff\xff\xff\xff",
        b"\x00\x01\x00\x00\x00\x01\xff\xff",
        b"\x00\x01\x00\x00\x00\x01\x00\x01\xff",
        b"\xff\xff\x00\x00\x00\x00",
    ],
)
def test_an_unreadable_subscription_has_no_topic_list(broken: bytes) -> None:
    assert subscribed_topics([READS_ORDERS, broken]) is None


def test_the_topics_of_all_members_count() -> None:
    payments = b"\x00\x00\x00\x00\x00\x01\x00\x08payments"
    assert subscribed_topics([READS_ORDERS, payments]) == frozenset({"orders", "payments"})

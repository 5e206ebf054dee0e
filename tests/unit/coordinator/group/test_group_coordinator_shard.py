"""One partition of __consumer_offsets: dispatch, deletion, expiry, conversion."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId
from headwater.coordinator.group.group_coordinator_shard import OffsetSettings
from headwater.coordinator.group.group_events import TopicsDeleted
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
)
from headwater.coordinator.records.consumer_group_records import ConsumerGroupMetadataRecord
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_effects import StateRecord, TransactionalProducer
from headwater.coordinator.runtime.coordinator_state import CoordinatorState
from headwater.coordinator.runtime.log_replay import LoggedRecord, read_slice
from headwater.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
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
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headwater.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.simulation.labs.group_lab import GroupLab

SETTINGS = OffsetSettings(retention_ms=60_000, check_interval_ms=1_000)
PRODUCER = TransactionalProducer(ProducerId(7), 0)


@pytest.fixture
def lab() -> GroupLab:
    return GroupLab(SETTINGS)


def join(lab: GroupLab, group: str = "g", assignment: bytes = b"everything") -> str:
    """One member with an assignment; return its id."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(
            JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff"),
        ),
    )
    answers = lab.send(request, 3)
    lab.pass_time(0)
    (joined,) = answers
    assert isinstance(joined, JoinGroupResponse), joined
    assert joined.error_code is ErrorCode.NONE
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=(
            SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment),
        ),
    )
    assert lab.ask(sync, SyncGroupResponse, 3).assignment == assignment
    return joined.member_id


def leave(lab: GroupLab, member_id: str, group: str = "g") -> None:
    request = LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id=member_id),))
    assert lab.ask(request, LeaveGroupResponse, 4).error_code is ErrorCode.NONE


def join_consumers(lab: GroupLab, group: str = "g") -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    return lab.ask(request, ConsumerGroupHeartbeatResponse, 1)


def leave_consumers(lab: GroupLab, group: str = "g") -> None:
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=-1)
    answer = lab.ask(request, ConsumerGroupHeartbeatResponse, 1)
    assert answer.error_code is ErrorCode.NONE


def commit(
    lab: GroupLab, group: str = "g", *, member_id: str = "", generation: int = -1
) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=(
            OffsetCommitRequestTopic(
                name="orders", partitions=(OffsetCommitRequestPartition(committed_offset=5),)
            ),
        ),
    )
    answer = lab.ask(request, OffsetCommitResponse, 9)
    return answer.topics[0].partitions[0].error_code


def commit_in_transaction(lab: GroupLab, group: str = "g") -> None:
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=7,
        topics=(
            TxnOffsetCommitRequestTopic(
                name="orders", partitions=(TxnOffsetCommitRequestPartition(committed_offset=8),)
            ),
        ),
    )
    answer = lab.ask(request, TxnOffsetCommitResponse, 3)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.NONE


def committed(lab: GroupLab, group: str = "g") -> int:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=(0,))
    asked = OffsetFetchRequestGroup(group_id=group, topics=(topic,))
    answer = lab.ask(OffsetFetchRequest(groups=(asked,)), OffsetFetchResponse, 8)
    return answer.groups[0].topics[0].partitions[0].committed_offset


def listed(
    lab: GroupLab, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> list[tuple[str, str, str, str]]:
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    answer = lab.ask(request, ListGroupsResponse, 5)
    return [
        (each.group_id, each.protocol_type, each.group_state, each.group_type)
        for each in answer.groups
    ]


def delete(lab: GroupLab, *groups: str) -> dict[str, ErrorCode]:
    answer = lab.ask(DeleteGroupsRequest(groups_names=groups), DeleteGroupsResponse, 2)
    return {each.group_id: each.error_code for each in answer.results}


def written(lab: GroupLab) -> list[StateRecord]:
    found = read_slice(b"".join(lab.log.batches), 0, GROUP_RECORDS)
    return [entry.record for entry in found.entries if isinstance(entry, LoggedRecord)]


def test_a_member_joins_commits_and_survives_a_restart(lab: GroupLab) -> None:
    member_id = join(lab)
    assert commit(lab, member_id=member_id, generation=1) is ErrorCode.NONE
    lab.restart()
    assert committed(lab) == 5
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert lab.ask(request, HeartbeatResponse, 4).error_code is ErrorCode.NONE
    assert listed(lab) == [("g", "consumer", "Stable", "classic")]


def test_a_member_without_heartbeats_after_a_restart_is_removed(lab: GroupLab) -> None:
    """GR-17: it has a whole session."""
    join(lab)
    lab.restart()
    lab.pass_time(9_999)
    assert listed(lab) == [("g", "consumer", "Stable", "classic")]
    lab.pass_time(1)
    assert listed(lab) == [("g", "consumer", "Empty", "classic")]


def test_an_unknown_member_may_not_commit(lab: GroupLab) -> None:
    """GR-11."""
    join(lab)
    assert commit(lab) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(lab, member_id="x", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(lab) == -1


def test_offsets_without_members_are_a_simple_group(lab: GroupLab) -> None:
    """GR-11."""
    assert commit(lab, "simple") is ErrorCode.NONE
    assert listed(lab) == [("simple", "", "Empty", "classic")]
    lab.restart()
    assert listed(lab) == [("simple", "", "Empty", "classic")]
    assert committed(lab, "simple") == 5


def test_requests_to_an_unknown_group_create_none(lab: GroupLab) -> None:
    """GR-3."""
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    answer = lab.ask(heartbeat, HeartbeatResponse, 4)
    assert answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID
    consumers = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
    refused = lab.ask(consumers, ConsumerGroupHeartbeatResponse, 1)
    assert refused.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(lab, generation=1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert listed(lab) == []
    assert lab.log.batches == []


def test_groups_are_listed_by_state_and_type_ignoring_case(lab: GroupLab) -> None:
    join(lab, "classic")
    join_consumers(lab, "consumers")
    commit(lab, "simple")
    rows = {
        "classic": ("classic", "consumer", "Stable", "classic"),
        "consumers": ("consumers", "consumer", "Stable", "consumer"),
        "simple": ("simple", "", "Empty", "classic"),
    }
    assert listed(lab) == [rows["classic"], rows["consumers"], rows["simple"]]
    assert listed(lab, states=("stable",)) == [rows["classic"], rows["consumers"]]
    assert listed(lab, states=("Empty", "Dead")) == [rows["simple"]]
    assert listed(lab, types=("Consumer",)) == [rows["consumers"]]
    assert listed(lab, states=("Empty",), types=("consumer",)) == []


def test_each_describe_api_knows_groups_of_its_own_type(lab: GroupLab) -> None:
    """GR-16."""
    join(lab, "classic")
    join_consumers(lab, "consumers")
    commit(lab, "simple")
    names = ("classic", "consumers", "simple", "none")
    for version, not_found in ((5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)):
        request = DescribeGroupsRequest(groups=names)
        classic = lab.ask(request, DescribeGroupsResponse, version)
        told = [(each.group_id, each.group_state, each.error_code) for each in classic.groups]
        assert told == [
            ("classic", "Stable", ErrorCode.NONE),
            ("consumers", "Dead", not_found),
            ("simple", "Empty", ErrorCode.NONE),
            ("none", "Dead", not_found),
        ]
    consumers = lab.ask(
        ConsumerGroupDescribeRequest(group_ids=names), ConsumerGroupDescribeResponse, 1
    )
    missing = ErrorCode.GROUP_ID_NOT_FOUND
    assert [each.error_code for each in consumers.groups] == [
        missing,
        ErrorCode.NONE,
        missing,
        missing,
    ]


def test_an_empty_group_is_deleted_with_its_offsets(lab: GroupLab) -> None:
    """GR-16."""
    member_id = join(lab)
    commit(lab, member_id=member_id, generation=1)
    assert delete(lab, "g", "none") == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert committed(lab) == 5
    leave(lab, member_id)
    assert delete(lab, "g", "g") == {"g": ErrorCode.NONE}
    for _ in range(2):
        assert listed(lab) == []
        assert committed(lab) == -1
        lab.restart()


@pytest.mark.parametrize("kind", ["simple", "consumers"])
def test_other_kinds_of_groups_are_deleted_too(lab: GroupLab, kind: str) -> None:
    if kind == "consumers":
        join_consumers(lab)
        assert delete(lab, "g") == {"g": ErrorCode.NON_EMPTY_GROUP}
        leave_consumers(lab)
    commit(lab)
    assert delete(lab, "g") == {"g": ErrorCode.NONE}
    for _ in range(2):
        assert listed(lab) == []
        assert committed(lab) == -1
        lab.restart()


def test_a_member_that_returns_after_a_deletion_creates_a_new_group(lab: GroupLab) -> None:
    leave(lab, join(lab))
    delete(lab, "g")
    member_id = join(lab)
    assert commit(lab, member_id=member_id, generation=1) is ErrorCode.NONE


def test_offsets_are_deleted_individually(lab: GroupLab) -> None:
    commit(lab)
    request = OffsetDeleteRequest(
        group_id="g",
        topics=(
            OffsetDeleteRequestTopic(
                name="orders", partitions=(OffsetDeleteRequestPartition(partition_index=0),)
            ),
        ),
    )
    assert lab.ask(request, OffsetDeleteResponse, 0).error_code is ErrorCode.NONE
    assert committed(lab) == -1
    assert listed(lab) == []


def test_transactional_offsets_count_after_the_marker_and_after_a_restart(lab: GroupLab) -> None:
    """TX-12."""
    commit(lab)
    commit_in_transaction(lab)
    assert committed(lab) == 5
    lab.restart()
    assert committed(lab) == 5
    lab.hosted.end_transaction(
        PRODUCER, coordinator_epoch=0, client_version=0, is_commit=True, answer=lambda _: None
    )
    assert committed(lab) == 8
    lab.restart()
    assert committed(lab) == 8


def test_offsets_of_a_deleted_topic_are_deleted(lab: GroupLab) -> None:
    """OE-2."""
    commit(lab)
    lab.hosted.handle_event(TopicsDeleted(("bills",)))
    assert committed(lab) == 5
    lab.hosted.handle_event(TopicsDeleted(("orders",)))
    assert committed(lab) == -1
    lab.restart()
    assert committed(lab) == -1


def test_an_empty_group_is_removed_when_its_offsets_have_expired(lab: GroupLab) -> None:
    """OE-1, GR-18."""
    member_id = join(lab)
    commit(lab, member_id=member_id, generation=1)
    leave(lab, member_id)
    lab.pass_time(59_999)
    assert committed(lab) == 5
    lab.pass_time(1_000)
    for _ in range(2):
        assert committed(lab) == -1
        assert listed(lab) == []
        lab.restart()


def test_expiry_is_repeated_also_after_a_restart(lab: GroupLab) -> None:
    lab.restart()
    for _ in range(3):
        commit(lab)
        for _ in range(61):
            lab.pass_time(1_000)
        assert committed(lab) == -1


def test_many_tombstones_are_several_batches(lab: GroupLab) -> None:
    for number in range(600):
        commit(lab, f"group-{number}")
    before = len(lab.log.batches)
    lab.hosted.handle_event(TopicsDeleted(("orders",)))
    counts = [header.record_count for header in lab.log.headers()[before:]]
    assert counts == [500, 100]
    assert lab.hosted.state is CoordinatorState.ACTIVE


def test_a_group_with_an_open_transaction_is_kept(lab: GroupLab) -> None:
    """TX-12."""
    commit_in_transaction(lab)
    lab.pass_time(200_000)
    assert listed(lab) == [("g", "", "Empty", "classic")]


def test_an_empty_classic_group_is_converted_with_its_offsets(
    lab: GroupLab,
) -> None:
    """NG-10."""
    member_id = join(lab)
    commit(lab, member_id=member_id, generation=1)
    leave(lab, member_id)
    before = len(written(lab))
    assert join_consumers(lab).error_code is ErrorCode.NONE
    assert written(lab)[before] == GroupMetadataRecord(GroupMetadataKey(group="g"), None)
    for _ in range(2):
        assert listed(lab) == [("g", "consumer", "Stable", "consumer")]
        assert committed(lab) == 5
        lab.restart()


def test_an_empty_consumer_group_is_converted_to_a_classic_one(lab: GroupLab) -> None:
    """NG-10."""
    join_consumers(lab)
    leave_consumers(lab)
    commit(lab)
    join(lab)
    assert ConsumerGroupMetadataRecord in [type(each) for each in written(lab)]
    for _ in range(2):
        assert listed(lab) == [("g", "consumer", "Stable", "classic")]
        assert committed(lab) == 5
        lab.restart()


def test_a_classic_request_to_a_consumer_group_with_members_is_rejected(lab: GroupLab) -> None:
    """NG-10."""
    join_consumers(lab)
    request = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer")
    answer = lab.ask(request, JoinGroupResponse, 3)
    assert answer.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert lab.ask(heartbeat, HeartbeatResponse, 4).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert listed(lab) == [("g", "consumer", "Stable", "consumer")]


def test_a_live_classic_group_of_consumers_is_upgraded(lab: GroupLab) -> None:
    """NG-10: it serves both protocols, also after a restart."""
    member_id = join(lab, assignment=b"")
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert lab.ask(heartbeat, HeartbeatResponse, 4).error_code is ErrorCode.NONE
    assert join_consumers(lab).error_code is ErrorCode.NONE
    for _ in range(2):
        assert listed(lab) == [("g", "consumer", "Reconciling", "consumer")]
        answer = lab.ask(heartbeat, HeartbeatResponse, 4)
        assert answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS
        lab.restart()
    lab.pass_time(10_000)
    assert lab.hosted.state is CoordinatorState.ACTIVE
    leave_consumers(lab)
    assert listed(lab) == [("g", "consumer", "Empty", "consumer")]


def test_a_heartbeat_to_a_classic_group_with_unreadable_metadata_is_rejected(
    lab: GroupLab,
) -> None:
    """NG-10."""
    join(lab, assignment=b"everything")
    assert join_consumers(lab).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert listed(lab) == [("g", "consumer", "Stable", "classic")]


def test_a_rejected_join_does_not_end_the_existing_group(lab: GroupLab) -> None:
    member_id = join(lab)
    leave(lab, member_id)
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    answer = lab.ask(request, ConsumerGroupHeartbeatResponse, 1)
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert listed(lab) == [("g", "consumer", "Empty", "classic")]


def test_timers_of_a_replaced_group_do_nothing(lab: GroupLab) -> None:
    leave(lab, join(lab))
    join_consumers(lab)
    lab.pass_time(20_000)
    assert lab.hosted.state is CoordinatorState.ACTIVE
    assert listed(lab) == [("g", "consumer", "Stable", "consumer")]

"""Group and offset APIs: authorization, unknown topics, and requests to many shards."""

from dataclasses import replace

import pytest

from headwater.broker.node.broker import Broker
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.common.principal import Requester
from headwater.coordinator.runtime.partition_for_key import partition_for
from headwater.metadata.changes import TopicCreated, TopicDeleted
from headwater.metadata.internal_topics import CONSUMER_OFFSETS
from headwater.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headwater.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
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
from headwater.security.authorization.authorizer import Operation, Resource
from tests.simulation.labs.broker_lab import BrokerLab, Peer, Refusing

GROUPS = tuple(f"group-{number}" for number in range(6))


def made(*refused: Operation, names: tuple[str, ...] | None = None) -> BrokerLab:
    """A broker with a topic, and a coordinator."""
    lab = BrokerLab(
        {"offsets.topic.num.partitions": "4"},
        authorizer=Refusing(*refused, names=names) if refused else None,
    )
    if not refused:
        find(lab)
        lab.create("orders")
    return lab


def find(lab: BrokerLab) -> None:
    request = FindCoordinatorRequest(coordinator_keys=GROUPS)
    lab.ask(request, FindCoordinatorResponse)


def commit(lab: BrokerLab, group: str, *topics: str) -> dict[str, ErrorCode]:
    request = OffsetCommitRequest(
        group_id=group,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic, partitions=(OffsetCommitRequestPartition(committed_offset=5),)
            )
            for topic in topics
        ),
    )
    answer = lab.ask(request, OffsetCommitResponse)
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}


def fetch(
    lab: BrokerLab, *groups: str, version: int | None = None
) -> list[tuple[str, int, ErrorCode]]:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=(0,))
    asked = tuple(OffsetFetchRequestGroup(group_id=each, topics=(topic,)) for each in groups)
    answer = lab.ask(OffsetFetchRequest(groups=asked), OffsetFetchResponse, version)
    return [
        (
            group.group_id,
            group.topics[0].partitions[0].committed_offset if group.topics else -1,
            group.error_code or (group.topics[0].partitions[0].error_code),
        )
        for group in answer.groups
    ]


@pytest.fixture
def lab() -> BrokerLab:
    return made()


def test_without_the_offsets_topic_there_is_no_coordinator() -> None:
    lab = BrokerLab()
    lab.create("orders")
    assert commit(lab, "g", "orders") == {"orders": ErrorCode.NOT_COORDINATOR}
    answer = lab.ask(HeartbeatRequest(group_id="g"), HeartbeatResponse)
    assert answer.error_code is ErrorCode.NOT_COORDINATOR
    assert lab.ask(ListGroupsRequest(), ListGroupsResponse) == ListGroupsResponse()


def test_groups_of_many_shards_are_fetched_with_one_request(lab: BrokerLab) -> None:
    assert len({partition_for(each, 4) for each in GROUPS}) > 1
    for group in GROUPS[:-1]:
        assert commit(lab, group, "orders") == {"orders": ErrorCode.NONE}
    found = [(group, 5, ErrorCode.NONE) for group in GROUPS[:-1]]
    assert fetch(lab, *GROUPS) == [*found, (GROUPS[-1], -1, ErrorCode.NONE)]
    answer = lab.ask(ListGroupsRequest(), ListGroupsResponse)
    assert sorted(each.group_id for each in answer.groups) == sorted(GROUPS[:-1])


def test_each_group_is_written_to_its_own_partition(lab: BrokerLab) -> None:
    commit(lab, "group-0", "orders")
    hosted = lab.broker.partitions.by_name(CONSUMER_OFFSETS) or {}
    ends = {number: each.log.end_offset for number, each in hosted.items() if each.log}
    assert ends[partition_for("group-0", 4)] == 1
    assert sum(ends.values()) == 1


def test_unknown_topic_is_rejected_and_the_others_are_committed(lab: BrokerLab) -> None:
    """GR-11."""
    assert commit(lab, "g", "nowhere", "orders") == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "orders": ErrorCode.NONE,
    }
    assert commit(lab, "g", "nowhere") == {"nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert fetch(lab, "g") == [("g", 5, ErrorCode.NONE)]


def test_old_version_fetches_one_group(lab: BrokerLab) -> None:
    """GR-12."""
    commit(lab, "g", "orders")
    assert fetch(lab, "g", version=1) == [("", 5, ErrorCode.NONE)]


def test_groups_are_described_and_deleted_in_any_shard(lab: BrokerLab) -> None:
    for group in GROUPS[:3]:
        commit(lab, group, "orders")
    described = lab.ask(DescribeGroupsRequest(groups=GROUPS), DescribeGroupsResponse, 5)
    assert [each.group_state for each in described.groups] == ["Empty"] * 3 + ["Dead"] * 3
    names = (*GROUPS, GROUPS[0])
    deleted = lab.ask(DeleteGroupsRequest(groups_names=names), DeleteGroupsResponse)
    assert {each.group_id: each.error_code for each in deleted.results} == {
        **dict.fromkeys(GROUPS[:3], ErrorCode.NONE),
        **dict.fromkeys(GROUPS[3:], ErrorCode.GROUP_ID_NOT_FOUND),
    }
    assert {offset for _, offset, _ in fetch(lab, *GROUPS)} == {-1}


def test_offsets_are_deleted_with_their_topic(lab: BrokerLab) -> None:
    """OE-2."""
    commit(lab, "g", "orders")
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="orders"),), timeout_ms=1000)
    lab.ask(request, DeleteTopicsResponse)
    assert fetch(lab, "g") == [("g", -1, ErrorCode.NONE)]


def test_offset_delete_of_existing_topics(lab: BrokerLab) -> None:
    commit(lab, "g", "orders")
    request = OffsetDeleteRequest(
        group_id="g",
        topics=tuple(
            OffsetDeleteRequestTopic(name=name, partitions=(OffsetDeleteRequestPartition(),))
            for name in ("orders", "nowhere")
        ),
    )
    answer = lab.ask(request, OffsetDeleteResponse)
    assert {each.name: each.partitions[0].error_code for each in answer.topics} == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "orders": ErrorCode.NONE,
    }
    assert fetch(lab, "g") == [("g", -1, ErrorCode.NONE)]


def test_waiting_member_gets_an_error_when_its_coordinator_moves(lab: BrokerLab) -> None:
    """GR-17."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range"),),
    )
    sent = lab.send(request, 3)
    assert not sent.is_answered
    assert sent.is_held
    lab.broker.groups.close()
    assert sent.answer(JoinGroupResponse).error_code is ErrorCode.NOT_COORDINATOR
    assert commit(lab, "g", "orders") == {"orders": ErrorCode.NOT_COORDINATOR}


def test_session_expires_by_the_brokers_clock(lab: BrokerLab) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range"),),
    )
    sent = lab.send(request, 3)
    lab.pass_time(3_000)
    joined = sent.answer(JoinGroupResponse)
    assert joined.error_code is ErrorCode.NONE
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert lab.ask(beat, HeartbeatResponse).error_code is ErrorCode.NONE
    for _ in range(3):
        lab.pass_time(10_000)
    assert lab.ask(beat, HeartbeatResponse).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_group_request_without_read_on_the_group_is_rejected() -> None:
    """AC-4."""
    lab = made(Operation.READ, Operation.DESCRIBE, Operation.DELETE, names=("g",))
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert commit(lab, "g", "orders") == {"orders": denied}
    assert fetch(lab, "g") == [("g", -1, denied)]
    beat = lab.ask(HeartbeatRequest(group_id="g"), HeartbeatResponse)
    assert beat.error_code is denied
    described = lab.ask(DescribeGroupsRequest(groups=("g",)), DescribeGroupsResponse)
    assert described.groups[0].error_code is denied
    deleted = lab.ask(DeleteGroupsRequest(groups_names=("g",)), DeleteGroupsResponse)
    assert deleted.results[0].error_code is denied
    offsets = lab.ask(OffsetDeleteRequest(group_id="g"), OffsetDeleteResponse)
    assert offsets.error_code is denied


def test_offset_commit_without_read_on_the_topic_is_rejected() -> None:
    """AC-4."""
    lab = made(Operation.READ, Operation.DESCRIBE, names=("orders",))
    find(lab)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert commit(lab, "g", "orders") == {"orders": denied}
    assert fetch(lab, "g") == [("g", -1, denied)]


def test_shards_are_loaded_in_slices(lab: BrokerLab) -> None:
    broker: Broker = lab.broker
    assert broker.groups.runtime.is_loading
    broker.groups.load_some(1_000)
    assert not broker.groups.runtime.is_loading


def test_offsets_of_missing_partitions_are_rejected_and_the_others_committed(
    lab: BrokerLab,
) -> None:
    """GR-11. As in Kafka 4.1, a topic is in the response once."""
    places = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=5)
        for index in (0, 9, -1)
    )
    topic = OffsetCommitRequestTopic(name="orders", partitions=places)
    request = OffsetCommitRequest(group_id="g", topics=(topic,))
    (answered,) = lab.ask(request, OffsetCommitResponse).topics
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    errors = {each.partition_index: each.error_code for each in answered.partitions}
    assert errors == {0: ErrorCode.NONE, 9: missing, -1: missing}
    assert fetch(lab, "g") == [("g", 5, ErrorCode.NONE)]
    deleted = OffsetDeleteRequestTopic(
        name="orders",
        partitions=(
            OffsetDeleteRequestPartition(partition_index=0),
            OffsetDeleteRequestPartition(partition_index=9),
        ),
    )
    gone = lab.ask(OffsetDeleteRequest(group_id="g", topics=(deleted,)), OffsetDeleteResponse)
    errors = {each.partition_index: each.error_code for each in gone.topics[0].partitions}
    assert errors == {0: ErrorCode.NONE, 9: missing}
    assert fetch(lab, "g") == [("g", -1, ErrorCode.NONE)]
    nameless = lab.ask(OffsetDeleteRequest(group_id="", topics=(deleted,)), OffsetDeleteResponse)
    assert nameless.error_code is ErrorCode.INVALID_GROUP_ID


def test_partitions_of_a_commit_are_not_compared_with_each_other(
    lab: BrokerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing all pairs of 10,000 partitions would take half a minute."""

    def refuse(*_: object) -> bool:
        raise AssertionError("partitions are compared")

    monkeypatch.setattr(OffsetCommitRequestPartition, "__eq__", refuse)
    monkeypatch.setattr(OffsetDeleteRequestPartition, "__eq__", refuse)
    numbers = (0, 7, 0, 8)
    commit = OffsetCommitRequest(
        group_id="group-1",
        topics=(
            OffsetCommitRequestTopic(
                name="orders",
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=each, committed_offset=index)
                    for index, each in enumerate(numbers)
                ),
            ),
        ),
    )
    (topic,) = lab.ask(commit, OffsetCommitResponse, 8).topics
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    expected = [(7, missing), (8, missing), (0, ErrorCode.NONE), (0, ErrorCode.NONE)]
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == expected
    delete = OffsetDeleteRequest(
        group_id="group-1",
        topics=(
            OffsetDeleteRequestTopic(
                name="orders",
                partitions=tuple(
                    OffsetDeleteRequestPartition(partition_index=each) for each in numbers
                ),
            ),
        ),
    )
    (deleted,) = lab.ask(delete, OffsetDeleteResponse).topics
    assert [(each.partition_index, each.error_code) for each in deleted.partitions] == expected


class Counting(Refusing):
    """Counts authorizations."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        self.count += 1
        return super().authorize(requester, operation, resource)

    allows = authorize


@pytest.mark.parametrize("known", [(), ("orders",)])
def test_commit_for_many_topics_is_checked_in_steps(known: tuple[str, ...]) -> None:
    authorizer = Counting()
    lab = BrokerLab({"offsets.topic.num.partitions": "4"}, authorizer=authorizer)
    find(lab)
    lab.create("orders")
    names = (*(f"n{number}" for number in range(1_000)), *known)
    request = OffsetCommitRequest(
        group_id="group-1",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=name, partitions=(OffsetCommitRequestPartition(committed_offset=5),)
            )
            for name in names
        ),
    )
    peer = Peer()
    peer.takes_steps = False
    sent = lab.send(request, 8, peer)
    most = 0
    while not sent.is_answered:
        before = authorizer.count
        assert next(peer.steps, None) is None
        most = max(most, authorizer.count - before)
        assert lab.ask(ListGroupsRequest(), ListGroupsResponse).error_code is ErrorCode.NONE
    assert 0 < most <= 102
    answered = {
        each.name: each.partitions[0].error_code
        for each in sent.answer(OffsetCommitResponse).topics
    }
    assert answered == {
        name: ErrorCode.NONE if name in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name in names
    }


def test_recreated_offsets_topic_has_new_coordinators(lab: BrokerLab) -> None:
    """As seen by a broker that was disconnected meanwhile: both changes at once, same epochs."""
    assert commit(lab, "group-1", "orders") == {"orders": ErrorCode.NONE}
    topic = lab.broker.image.topics[CONSUMER_OFFSETS]
    recreated = replace(topic, topic_id=TopicId(bytes(range(16))))
    lab.change(TopicDeleted(CONSUMER_OFFSETS), TopicCreated(recreated))
    assert fetch(lab, "group-1") == [("group-1", -1, ErrorCode.NONE)]
    assert commit(lab, "group-1", "orders") == {"orders": ErrorCode.NONE}
    assert fetch(lab, "group-1") == [("group-1", 5, ErrorCode.NONE)]

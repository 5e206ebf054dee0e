"""DeleteTopics and CreatePartitions."""

from dataclasses import replace

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, NodeId, TopicId
from headwater.controller.topic_changes import TopicAuthorization, create_partitions, delete_topics
from headwater.controller.topic_creation import create_topics, new_partition
from headwater.metadata.changes import (
    BrokerStopping,
    PartitionsAdded,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest
from headwater.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.simulation.labs.cluster_lab import (
    ALL_RIGHTS,
    STATIC,
    after,
    broker,
    cluster_of,
    rng,
    topic,
)


@pytest.fixture
def image() -> ClusterImage:
    """Two brokers and the topics `a.b`, with a config, and `orders`, of two partitions each."""
    image = cluster_of(broker(0), broker(1))
    topics = (topic("a.b", 2, 2, configs={"retention.ms": "1"}), topic("orders", 2, 1))
    request = CreateTopicsRequest(topics=topics)
    return after(image, *create_topics(image, request, STATIC, rng()).changes)


def delete(
    image: ClusterImage, *topics: DeleteTopicState, rights: TopicAuthorization = ALL_RIGHTS
) -> ControllerResult[tuple[DeletableTopicResult, ...]]:
    return delete_topics(image, DeleteTopicsRequest(topics=topics), rights)


def test_topics_are_deleted_by_name_or_by_id(image: ClusterImage) -> None:
    """TO-4. In a cluster the replicas are deleted before the topic."""
    orders_id, other_id = image.topics["orders"].topic_id, image.topics["a.b"].topic_id
    decision = delete(image, DeleteTopicState(name="orders"), DeleteTopicState(topic_id=other_id))
    results = (
        DeletableTopicResult(name="orders", topic_id=orders_id),
        DeletableTopicResult(name="a.b", topic_id=other_id),
    )
    assert decision.changes == [TopicDeletionBegun("orders"), TopicDeletionBegun("a.b")]
    assert decision.answer == results
    begun = after(image, *decision.changes)
    asked = (DeleteTopicState(name="orders"), DeleteTopicState(topic_id=other_id))
    again = delete(begun, *asked)
    assert (again.changes, again.answer) == ([], results)
    for until in (decision.until, again.until):
        assert until is not None
        assert not until(after(begun, TopicDeleted("orders")))
        assert until(after(begun, TopicDeleted("orders"), TopicDeleted("a.b")))
    alone = replace(image, is_standalone=True)
    assert delete(alone, *asked) == ControllerResult(
        [TopicDeleted("orders"), TopicDeleted("a.b")], results
    )


def test_a_topic_being_deleted_can_be_neither_created_nor_changed(
    image: ClusterImage,
) -> None:
    begun = after(image, *delete(image, DeleteTopicState(name="orders")).changes)
    made = create_topics(begun, CreateTopicsRequest(topics=(topic("orders"),)), STATIC, rng())
    assert made.answer[0].error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    growth = CreatePartitionsTopic(name="orders", count=9, assignments=None)
    grown = create_partitions(begun, CreatePartitionsRequest(topics=(growth,)), rng())
    assert grown.answer[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_leaves_nothing_behind(image: ClusterImage) -> None:
    """TO-1, TO-4: its configs are deleted too, and its name no longer collides."""
    topic_id = image.topics["a.b"].topic_id
    image = replace(image, is_standalone=True)
    image = after(image, *delete(image, DeleteTopicState(name="a.b")).changes)
    assert "a.b" not in image.topics
    assert image.topic_by_id(topic_id) is None
    assert image.configs_of(ResourceType.TOPIC, "a.b") == {}
    request = CreateTopicsRequest(topics=(topic("a_b"),))
    (result,) = create_topics(image, request, STATIC, rng()).answer
    assert result.error_code is ErrorCode.NONE


def test_unknown_and_unauthorized_topics_are_rejected(image: ClusterImage) -> None:
    """TO-4."""
    unknown_id = TopicId(b"\x07" * 16)
    orders = image.topics["orders"].topic_id
    decision = delete(
        image,
        DeleteTopicState(name="gone"),
        DeleteTopicState(topic_id=unknown_id),
        DeleteTopicState(name="orders", topic_id=orders),
        DeleteTopicState(),
        DeleteTopicState(name="a.b"),
        DeleteTopicState(topic_id=image.topics["a.b"].topic_id),
    )
    assert decision.changes == []
    assert [result.error_code for result in decision.answer] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


def test_a_topic_named_twice_has_one_result_and_is_not_deleted(image: ClusterImage) -> None:
    """TO-4: by name or by id."""
    topic_id = image.topics["a.b"].topic_id
    by_name, by_id = DeleteTopicState(name="a.b"), DeleteTopicState(topic_id=topic_id)
    told = []
    for asked in [(by_name, by_name), (by_id, by_id), (by_name, by_id), (by_id, by_name)]:
        decision = delete(image, *asked)
        assert decision.changes == []
        (result,) = decision.answer
        assert result.error_code is ErrorCode.INVALID_REQUEST
        told.append((result.name, result.topic_id))
    assert told == [("a.b", NO_TOPIC_ID), (None, topic_id), ("a.b", topic_id), ("a.b", topic_id)]


def test_deleting_does_not_reveal_topics_to_unauthorized_clients(image: ClusterImage) -> None:
    """Neither its name, nor its id, nor that it exists."""
    topic_id = image.topics["orders"].topic_id
    asked = [
        DeleteTopicState(name="orders"),
        DeleteTopicState(name="gone"),
        DeleteTopicState(topic_id=topic_id),
    ]
    nothing = TopicAuthorization(may_describe=lambda _: False, may_delete=lambda _: False)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert delete(image, *asked[:2], rights=nothing) == ControllerResult(
        [],
        tuple(DeletableTopicResult(name=name, error_code=code) for name in ("orders", "gone")),
    )
    assert delete(image, asked[2], rights=nothing) == ControllerResult(
        [], (DeletableTopicResult(name=None, topic_id=topic_id, error_code=code),)
    )
    only_seeing = TopicAuthorization(may_describe=lambda _: True, may_delete=lambda _: False)
    codes = [each.error_code for each in delete(image, *asked[:2], rights=only_seeing).answer]
    assert codes == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def grow(
    image: ClusterImage,
    name: str,
    count: int,
    *assignments: tuple[int, ...],
    validate_only: bool = False,
) -> ControllerResult[tuple[CreatePartitionsTopicResult, ...]]:
    by_hand = tuple(CreatePartitionsAssignment(broker_ids=each) for each in assignments)
    asked = CreatePartitionsTopic(name=name, count=count, assignments=by_hand or None)
    request = CreatePartitionsRequest(topics=(asked,), validate_only=validate_only)
    return create_partitions(image, request, rng())


def test_create_partitions_grows_a_topic_to_the_requested_count(image: ClusterImage) -> None:
    """TO-5: new partitions have as many replicas as the old ones."""
    decision = grow(image, "a.b", 5)
    assert decision.answer == (CreatePartitionsTopicResult(name="a.b"),)
    grown = after(image, *decision.changes).topics["a.b"].partitions
    assert grown[:2] == image.topics["a.b"].partitions
    assert [len(each.replicas) for each in grown] == [2] * 5
    assert grow(image, "a.b", 5, validate_only=True) == ControllerResult((), decision.answer)


def test_new_partitions_are_not_placed_on_a_stopping_broker(image: ClusterImage) -> None:
    stopping = after(image, BrokerStopping(NodeId(1)))
    (result,) = grow(stopping, "a.b", 5).answer
    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_added_partitions_may_be_assigned_manually(image: ClusterImage) -> None:
    """TO-5."""
    decision = grow(image, "orders", 4, (1,), (0,))
    added = (new_partition([1]), new_partition([0]))
    assert decision.changes == [PartitionsAdded("orders", added)]


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("gone", 3, (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 2, (), ErrorCode.INVALID_PARTITIONS),
        ("orders", 1, (), ErrorCode.INVALID_PARTITIONS),
        ("orders", -1, (), ErrorCode.INVALID_PARTITIONS),
        ("orders", 10_003, (), ErrorCode.POLICY_VIOLATION),
        ("orders", 3, ((0,), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, ((0, 1),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, ((9,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_partition_counts_and_assignments_are_rejected(
    image: ClusterImage,
    name: str,
    count: int,
    assignments: tuple[tuple[int, ...], ...],
    code: ErrorCode,
) -> None:
    """TO-5."""
    decision = grow(image, name, count, *assignments)
    assert decision.changes == []
    assert [result.error_code for result in decision.answer] == [code]

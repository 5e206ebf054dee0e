"""CreateTopics, auto-creation and internal topics."""

from dataclasses import replace

import pytest

from headwater.common.config_types import ConfigSource, ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, NodeId
from headwater.controller.topic_creation import Results, create_on_first_use, create_topics
from headwater.metadata.changes import BrokerStopping, ConfigsReplaced, TopicCreated
from headwater.metadata.cluster_image import ClusterImage, ConfigResource, PartitionRegistration
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig
from headwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.simulation.labs.cluster_lab import (
    STATIC,
    after,
    broker,
    cluster_of,
    lone_broker,
    rng,
    topic,
)

ONLY_ONE = PartitionRegistration(replicas=(NodeId(0),), isr=(NodeId(0),), leader=NodeId(0))


def create(
    image: ClusterImage, *topics: CreatableTopic, validate_only: bool = False
) -> ControllerResult[Results]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return create_topics(image, request, STATIC, rng())


def codes(decision: ControllerResult[Results]) -> dict[str, ErrorCode]:
    return {result.name: result.error_code for result in decision.answer}


def test_a_topic_is_created_as_requested() -> None:
    decision = create(lone_broker(), topic("orders", 3, 1, configs={"retention.ms": "1000"}))
    created, configured = decision.changes
    assert isinstance(created, TopicCreated)
    assert created.topic.name == "orders"
    assert created.topic.partitions == (ONLY_ONE,) * 3
    resource = ConfigResource(ResourceType.TOPIC, "orders")
    assert configured == ConfigsReplaced(resource, {"retention.ms": "1000"})
    (result,) = decision.answer
    assert replace(result, configs=()) == replace(
        result,
        error_code=ErrorCode.NONE,
        error_message=None,
        topic_id=created.topic.topic_id,
        num_partitions=3,
        replication_factor=1,
        configs=(),
    )
    shown = {each.name: (each.value, each.config_source) for each in result.configs or ()}
    assert shown["retention.ms"] == ("1000", ConfigSource.TOPIC_CONFIG)
    assert shown["segment.bytes"] == ("1073741824", ConfigSource.DEFAULT_CONFIG)


def test_missing_counts_are_the_broker_defaults() -> None:
    """TO-2: -1 requests the default."""
    static = StaticConfig.parse({"num.partitions": "4", "default.replication.factor": "2"})
    image = cluster_of(broker(0), broker(1), broker(2))
    request = CreateTopicsRequest(topics=(topic("orders"),))
    (result,) = create_topics(image, request, static, rng()).answer
    assert (result.num_partitions, result.replication_factor) == (4, 2)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (topic("orders", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("eu_sales"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("new", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("new", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("new", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("new", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("new", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (topic("new", configs={"retention": "1"}), ErrorCode.INVALID_CONFIG),
        (topic("new", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (topic("new", 1, assignment={0: (0,)}), ErrorCode.INVALID_REQUEST),
        (topic("new", -1, 1, assignment={0: (0,)}), ErrorCode.INVALID_REQUEST),
        (topic("new", assignment={1: (0,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("new", assignment={0: (0, 0)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("new", assignment={0: ()}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("new", assignment={0: (7,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("new", 10_001), ErrorCode.POLICY_VIOLATION),
    ],
    ids=str,
)
def test_an_invalid_topic_is_rejected(asked: CreatableTopic, code: ErrorCode) -> None:
    """TO-1, TO-2."""
    image = after(lone_broker(), *create(lone_broker(), topic("orders"), topic("eu.sales")).changes)
    decision = create(image, asked)
    assert codes(decision) == {asked.name: code}
    assert decision.changes == []
    assert decision.answer[0].error_message


def test_a_manual_assignment_must_have_equally_many_replicas_per_partition() -> None:
    """TO-2."""
    image = cluster_of(broker(0), broker(1))
    decision = create(image, topic("new", assignment={0: (0, 1), 1: (1,)}))
    assert codes(decision) == {"new": ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_a_manual_assignment_is_used_as_given() -> None:
    """TO-2."""
    image = cluster_of(broker(0), broker(1))
    (change,) = create(image, topic("new", assignment={1: (1, 0), 0: (0, 1)})).changes
    assert isinstance(change, TopicCreated)
    assert [each.replicas for each in change.topic.partitions] == [(0, 1), (1, 0)]
    assert [each.leader for each in change.topic.partitions] == [0, 1]


def test_a_rejected_topic_does_not_affect_the_others() -> None:
    """TO-2: each topic is independent."""
    decision = create(
        lone_broker(), topic("good"), topic("no good"), topic("twice"), topic("twice")
    )
    assert codes(decision) == {
        "good": ErrorCode.NONE,
        "no good": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert len(decision.changes) == 1


def test_two_topics_of_one_request_can_collide() -> None:
    """TO-1."""
    decision = create(lone_broker(), topic("a.b"), topic("a_b"))
    assert codes(decision) == {"a.b": ErrorCode.NONE, "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_validate_only_changes_nothing() -> None:
    """TO-2."""
    decision = create(lone_broker(), topic("good"), topic("bad", 0), validate_only=True)
    assert codes(decision) == {"good": ErrorCode.NONE, "bad": ErrorCode.INVALID_PARTITIONS}
    assert decision.changes == ()
    # Kafka also returns an id that it will not use.
    assert decision.answer[0].topic_id != NO_TOPIC_ID


def test_topic_ids_are_random_uuids_that_no_shell_takes_for_an_option() -> None:
    """TI-1."""
    decision = create(lone_broker(), *(topic(f"t{number}") for number in range(500)))
    ids = [result.topic_id for result in decision.answer]
    assert len(set(ids)) == 500
    assert {topic_id[6] >> 4 for topic_id in ids} == {4}
    assert {topic_id[8] >> 6 for topic_id in ids} == {2}
    assert not any(str(topic_id).startswith("-") for topic_id in ids)


def test_an_auto_created_topic_has_the_broker_defaults() -> None:
    """TO-6."""
    static = StaticConfig.parse({"num.partitions": "3"})
    image = lone_broker()
    decision = create_on_first_use(image, ["orders", "orders", "bad name"], static, rng())
    assert codes(decision) == {
        "orders": ErrorCode.NONE,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    image = after(image, *decision.changes)
    assert image.topics["orders"].partitions == (ONLY_ONE,) * 3
    assert create_on_first_use(image, ["orders"], static, rng()) == ControllerResult([], ())


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_a_standalone_broker_creates_internal_topics_with_one_replica(name: str) -> None:
    """TO-6: they have their own settings."""
    image = after(lone_broker(), *create_on_first_use(lone_broker(), [name], STATIC, rng()).changes)
    assert image.topics[name].partitions == (ONLY_ONE,) * 50
    configs = image.configs_of(ResourceType.TOPIC, name)
    assert configs["cleanup.policy"] == "compact"
    assert configs["segment.bytes"] == "104857600"
    assert configs.get("min.insync.replicas", "1") == "1"


def test_a_cluster_with_too_few_live_brokers_does_not_create_internal_topics() -> None:
    """TO-6: missing replicas would be missing forever."""
    image = cluster_of(broker(0), broker(1))
    decision = create_on_first_use(image, ["__consumer_offsets"], STATIC, rng())
    assert codes(decision) == {"__consumer_offsets": ErrorCode.INVALID_REPLICATION_FACTOR}


def test_replicas_are_not_placed_on_a_stopping_broker() -> None:
    """It would lead for a moment only, and leave partitions without a leader."""
    image = after(cluster_of(broker(0), broker(1), broker(2)), BrokerStopping(NodeId(1)))
    (created,) = create(image, topic("orders", 6, 2)).changes
    assert isinstance(created, TopicCreated)
    assert {node for each in created.topic.partitions for node in each.replicas} == {0, 2}
    assert codes(create(image, topic("orders", 1, 3))) == {
        "orders": ErrorCode.INVALID_REPLICATION_FACTOR
    }

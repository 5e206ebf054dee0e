"""Every API authorizes its clients and has its own error for a denial."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import response_class
from headwater.protocol.messages import (
    create_topics,
    delete_topics,
    describe_configs,
    find_coordinator,
    init_producer_id,
    metadata,
)
from headwater.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headwater.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headwater.security.authorization.authorizer import Operation
from tests.simulation.labs.broker_lab import BrokerLab, Refusing
from tests.simulation.labs.cluster_lab import topic
from tests.unit.broker.requests.test_api_routes import BY_KEY, errors_in

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

OPERATIONS = tuple(Operation)

# Errors for the requests of `test_api_routes` if just these operations are denied.
REFUSALS = [
    (ApiKey.LIST_OFFSETS, [Operation.DESCRIBE], {TOPIC}),
    # The requested topic does not exist, so it would be created.
    (ApiKey.METADATA, [Operation.DESCRIBE, Operation.CREATE], {TOPIC, ErrorCode.NONE}),
    (ApiKey.FIND_COORDINATOR, [Operation.DESCRIBE], {GROUP}),
    (ApiKey.DELETE_RECORDS, [Operation.DELETE], {TOPIC}),
    (ApiKey.INIT_PRODUCER_ID, [Operation.IDEMPOTENT_WRITE, Operation.WRITE], {CLUSTER}),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, [Operation.CLUSTER_ACTION, Operation.DESCRIBE], {TOPIC}),
    (ApiKey.DESCRIBE_ACLS, [Operation.DESCRIBE], {CLUSTER}),
    (ApiKey.CREATE_ACLS, [Operation.ALTER], {CLUSTER}),
    (ApiKey.DELETE_ACLS, [Operation.ALTER], {CLUSTER}),
    (ApiKey.DESCRIBE_CONFIGS, [Operation.DESCRIBE_CONFIGS], {TOPIC}),
    (ApiKey.ALTER_CONFIGS, [Operation.ALTER_CONFIGS], {TOPIC}),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, [Operation.ALTER_CONFIGS], {TOPIC}),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, [Operation.ALTER], {CLUSTER}),
    (ApiKey.DESCRIBE_LOG_DIRS, [Operation.DESCRIBE], {CLUSTER}),
    (ApiKey.ELECT_LEADERS, [Operation.ALTER], {CLUSTER}),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, [Operation.ALTER], {CLUSTER}),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, [Operation.DESCRIBE], {CLUSTER}),
    (ApiKey.UPDATE_FEATURES, [Operation.ALTER], {CLUSTER}),
    (ApiKey.DESCRIBE_PRODUCERS, [Operation.READ], {TOPIC}),
    (ApiKey.UNREGISTER_BROKER, [Operation.ALTER], {CLUSTER}),
    (ApiKey.LIST_CONFIG_RESOURCES, [Operation.DESCRIBE_CONFIGS], {CLUSTER}),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, [Operation.DESCRIBE], {TOPIC}),
    # From leaders, in the newest version.
    (ApiKey.ADD_PARTITIONS_TO_TXN, [Operation.CLUSTER_ACTION], {CLUSTER}),
    (ApiKey.ADD_OFFSETS_TO_TXN, [Operation.WRITE], {TRANSACTION}),
    (ApiKey.ADD_OFFSETS_TO_TXN, [Operation.READ], {GROUP}),
    (ApiKey.END_TXN, [Operation.WRITE], {TRANSACTION}),
    (ApiKey.WRITE_TXN_MARKERS, [Operation.ALTER, Operation.CLUSTER_ACTION], {CLUSTER}),
    (ApiKey.TXN_OFFSET_COMMIT, [Operation.WRITE], {TRANSACTION}),
    (ApiKey.TXN_OFFSET_COMMIT, [Operation.READ], {GROUP}),
    (ApiKey.DESCRIBE_TRANSACTIONS, [Operation.DESCRIBE], {TRANSACTION}),
]


@pytest.mark.parametrize(
    ("key", "operations", "codes"), REFUSALS, ids=[key.name for key, *_ in REFUSALS]
)
def test_denied_operation_is_an_authorization_error(
    key: ApiKey, operations: list[Operation], codes: set[ErrorCode]
) -> None:
    lab = BrokerLab(authorizer=Refusing(*operations))
    response = lab.ask(BY_KEY[key], response_class(key))
    assert set(errors_in(response)) == codes


@pytest.mark.parametrize(
    ("key", "operations", "codes"), REFUSALS, ids=[key.name for key, *_ in REFUSALS]
)
def test_no_other_operation_is_needed(
    key: ApiKey, operations: list[Operation], codes: set[ErrorCode]
) -> None:
    """A handler that needs more than Kafka's would reject clients that Kafka accepts."""
    others = [each for each in OPERATIONS if each not in operations]
    lab = BrokerLab(authorizer=Refusing(*others))
    response = lab.ask(BY_KEY[key], response_class(key))
    assert not set(errors_in(response)) & (codes - {ErrorCode.NONE})


def test_produce_without_write_is_rejected() -> None:
    lab = BrokerLab(authorizer=Refusing(Operation.WRITE))
    lab.create("t", 4)
    response = lab.ask(BY_KEY[ApiKey.PRODUCE], response_class(ApiKey.PRODUCE), 12)
    assert set(errors_in(response)) == {TOPIC}


def test_fetch_without_read_is_rejected() -> None:
    lab = BrokerLab(authorizer=Refusing(Operation.READ))
    lab.create("t", 4)
    response = lab.ask(BY_KEY[ApiKey.FETCH], response_class(ApiKey.FETCH), 12)
    assert set(errors_in(response)) == {TOPIC, ErrorCode.NONE}


def test_topic_can_be_created_with_create_on_the_cluster_or_on_the_topic() -> None:
    request = create_topics.CreateTopicsRequest(
        topics=(topic("mine"), topic("theirs"), topic("twice"), topic("twice"))
    )
    lab = BrokerLab(
        authorizer=Refusing(Operation.CREATE, names=["kafka-cluster", "theirs", "twice"])
    )
    results = lab.ask(request, create_topics.CreateTopicsResponse).topics
    assert {each.name: each.error_code for each in results} == {
        "mine": ErrorCode.NONE,
        "theirs": TOPIC,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert list(lab.broker.image.topics) == ["mine"]
    lab = BrokerLab(authorizer=Refusing(Operation.CREATE, names=["mine", "theirs"]))
    results = lab.ask(request, create_topics.CreateTopicsResponse).topics
    assert [each.error_code for each in results[:2]] == [ErrorCode.NONE] * 2


def test_creator_of_a_topic_may_not_see_its_configs() -> None:
    lab = BrokerLab(authorizer=Refusing(Operation.DESCRIBE_CONFIGS))
    request = create_topics.CreateTopicsRequest(topics=(topic("t", 2),))
    (result,) = lab.ask(request, create_topics.CreateTopicsResponse).topics
    assert result == create_topics.CreatableTopicResult(
        name="t", topic_id=result.topic_id, topic_config_error_code=TOPIC
    )
    assert "t" in lab.broker.image.topics


def test_topic_can_be_deleted_with_delete_on_the_cluster_or_on_the_topic() -> None:
    request = delete_topics.DeleteTopicsRequest(
        topics=(delete_topics.DeleteTopicState(name="t"),), timeout_ms=1_000
    )
    for names, code in [
        (["kafka-cluster"], ErrorCode.NONE),
        (["t"], ErrorCode.NONE),
        (None, TOPIC),
    ]:
        lab = BrokerLab(authorizer=Refusing(Operation.DELETE, names=names))
        lab.create("t")
        (result,) = lab.ask(request, delete_topics.DeleteTopicsResponse).responses
        assert result.error_code is code


def test_hidden_topic_is_not_auto_created() -> None:
    """Nor is it revealed whether it exists, by name or by id."""
    lab = BrokerLab(authorizer=Refusing(Operation.DESCRIBE))
    lab.create("there")
    there = lab.broker.image.topics["there"].topic_id
    asked = metadata.MetadataRequest(
        topics=tuple(metadata.MetadataRequestTopic(name=each) for each in ("there", "gone"))
    )
    results = lab.ask(asked, metadata.MetadataResponse).topics
    assert results == tuple(
        metadata.MetadataResponseTopic(error_code=TOPIC, name=each) for each in ("there", "gone")
    )
    by_id = metadata.MetadataRequestTopic(name=None, topic_id=there)
    request = metadata.MetadataRequest(topics=(by_id,))
    (result,) = lab.ask(request, metadata.MetadataResponse).topics
    assert (result.error_code, result.name) == (TOPIC, None)
    everything = lab.ask(metadata.MetadataRequest(topics=None), metadata.MetadataResponse)
    assert everything.topics == ()
    assert list(lab.broker.image.topics) == ["there"]


def test_topic_is_not_auto_created_without_create() -> None:
    lab = BrokerLab(authorizer=Refusing(Operation.CREATE))
    request = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name="new"),))
    (result,) = lab.ask(request, metadata.MetadataResponse).topics
    assert result.error_code is TOPIC
    assert not lab.broker.image.topics


def test_transactional_id_needs_its_own_operation() -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    lab = BrokerLab(authorizer=Refusing(Operation.WRITE, Operation.DESCRIBE))
    init = init_producer_id.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1)
    assert lab.ask(init, init_producer_id.InitProducerIdResponse).error_code is code
    find = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=("x",))
    (found,) = lab.ask(find, find_coordinator.FindCoordinatorResponse).coordinators
    assert found.error_code is code


def test_broker_configs_need_an_operation_on_the_cluster() -> None:
    lab = BrokerLab(authorizer=Refusing(Operation.DESCRIBE_CONFIGS, names=["kafka-cluster"]))
    listing = lab.ask(ListConfigResourcesRequest(), ListConfigResourcesResponse)
    assert listing == ListConfigResourcesResponse(error_code=CLUSTER)
    asked = describe_configs.DescribeConfigsResource(resource_type=4, resource_name="0")
    request = describe_configs.DescribeConfigsRequest(resources=(asked,))
    (result,) = lab.ask(request, describe_configs.DescribeConfigsResponse).results
    assert (result.error_code, result.configs) == (CLUSTER, ())


def test_cluster_without_describe_has_no_authorized_operations() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    lab = BrokerLab(authorizer=Refusing(Operation.DESCRIBE))
    response = lab.ask(request, DescribeClusterResponse)
    assert response.cluster_authorized_operations == 0
    lab = BrokerLab()
    response = lab.ask(request, DescribeClusterResponse)
    assert response.cluster_authorized_operations == 8_096

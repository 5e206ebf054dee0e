"""DescribeCluster, DescribeTopicPartitions, FindCoordinator and other cluster requests."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headwater.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from headwater.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
    TopicPartitions,
)
from headwater.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from headwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from headwater.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from headwater.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from headwater.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.simulation.labs.broker_lab import CLUSTER_ID, BrokerLab

TOPIC_OPERATIONS = 3_576


def test_standalone_cluster_is_described_with_its_broker() -> None:
    for version in (0, 1, 2):
        response = BrokerLab().ask(DescribeClusterRequest(), DescribeClusterResponse, version)
        assert response == DescribeClusterResponse(
            cluster_id=CLUSTER_ID,
            controller_id=0,
            brokers=(DescribeClusterBroker(broker_id=0, host="broker.test", port=9092),),
        )


def test_controller_endpoints_are_rejected() -> None:
    lab = BrokerLab()
    for endpoint_type, code in [(2, "MISMATCHED_ENDPOINT_TYPE"), (7, "UNSUPPORTED_ENDPOINT_TYPE")]:
        response = lab.ask(
            DescribeClusterRequest(endpoint_type=endpoint_type), DescribeClusterResponse
        )
        assert response.error_code is ErrorCode[code]
        assert (response.cluster_id, response.controller_id, response.brokers) == ("", -1, ())


Page = tuple[list[tuple[str, list[int]]], tuple[str, int] | None]


def page(
    lab: BrokerLab, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None
) -> Page:
    """Return topics with their partition numbers, and the next cursor."""
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response = lab.ask(request, DescribeTopicPartitionsResponse)
    following = response.next_cursor
    return (
        [
            (each.name or "", [partition.partition_index for partition in each.partitions])
            for each in response.topics
        ],
        None if following is None else (following.topic_name, following.partition_index),
    )


def test_topics_are_paged_by_name() -> None:
    lab = BrokerLab()
    lab.create("b", 3)
    lab.create("a", 2)
    everything = [("a", [0, 1]), ("b", [0, 1, 2])]
    assert page(lab) == page(lab, "b", "a", "b") == (everything, None)
    assert page(lab, limit=2) == ([("a", [0, 1])], ("b", 0))
    assert page(lab, limit=3) == ([("a", [0, 1]), ("b", [0])], ("b", 1))
    assert page(lab, limit=2, cursor=("b", 1)) == ([("b", [1, 2])], None)
    assert page(lab, limit=0) == page(lab, limit=-5) == ([("a", [0])], ("a", 1))
    assert page(lab, cursor=("b", 9)) == ([("b", [])], None)


def test_all_pages_together_are_complete() -> None:
    lab = BrokerLab({"max.request.partition.size.limit": "2"})
    for name, count in [("a", 3), ("b", 1), ("c", 2), ("d", 1)]:
        lab.create(name, count)
    found: list[tuple[str, int]] = []
    topics, cursor = page(lab)
    for _ in range(10):
        found += [(name, number) for name, numbers in topics for number in numbers]
        if cursor is None:
            break
        topics, cursor = page(lab, cursor=cursor)
    wanted = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1), ("d", 0)]
    assert found == wanted


def test_topic_description_has_authorized_operations_and_no_elr() -> None:
    lab = BrokerLab()
    lab.create("t")
    names = ("a b", "gone", "t")
    request = DescribeTopicPartitionsRequest(topics=tuple(TopicRequest(name=n) for n in names))
    bad, gone, good = lab.ask(request, DescribeTopicPartitionsResponse).topics
    assert bad.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (gone.error_code, gone.topic_id) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_TOPIC_ID)
    assert {each.topic_authorized_operations for each in (bad, gone, good)} == {TOPIC_OPERATIONS}
    assert good.topic_id == lab.broker.image.topics["t"].topic_id
    assert good.partitions == (
        DescribeTopicPartitionsResponsePartition(
            leader_id=0,
            leader_epoch=0,
            replica_nodes=(0,),
            isr_nodes=(0,),
            eligible_leader_replicas=(),
            last_known_elr=(),
        ),
    )


def test_cursor_outside_the_requested_topics_is_rejected() -> None:
    lab = BrokerLab()
    lab.create("a")
    for cursor in [Cursor(topic_name="b"), Cursor(topic_name="a", partition_index=-1)]:
        request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name="a"),), cursor=cursor)
        response = lab.ask(request, DescribeTopicPartitionsResponse)
        assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_REQUEST]
        assert response.next_cursor is None


def find(lab: BrokerLab, *keys: str, key_type: int = 0, version: int = 6) -> list[Coordinator]:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    return list(lab.ask(request, FindCoordinatorResponse, version).coordinators)


def test_first_find_coordinator_creates_the_topic() -> None:
    lab = BrokerLab({"offsets.topic.num.partitions": "3", "auto.create.topics.enable": "false"})
    found = [
        Coordinator(key=key, node_id=0, host="broker.test", port=9092, error_message="")
        for key in ("g", "", "g")
    ]
    assert find(lab, "g", "", "g") == found
    offsets = lab.broker.image.topics["__consumer_offsets"]
    assert [each.replicas for each in offsets.partitions] == [(0,)] * 3
    assert find(lab, "t", key_type=1)[0].node_id == 0
    assert "__transaction_state" in lab.broker.image.topics
    assert find(lab) == []


def test_single_key_response_has_a_message_even_without_an_error() -> None:
    """As Kafka 4.1 does, up to version 3."""
    lab = BrokerLab()
    assert [each.error_message for each in find(lab, "g", version=3)] == ["NONE"]
    assert [each.error_message for each in find(lab, "g", version=0)] == [None]


@pytest.mark.parametrize("version", [1, 6])
def test_unknown_coordinator_key_type_is_rejected(version: int) -> None:
    (found,) = find(BrokerLab(), "k", key_type=9, version=version)
    assert found.error_code is ErrorCode.INVALID_REQUEST
    assert (found.node_id, found.host, found.port) == (-1, "", -1)
    assert found.error_message


def test_on_a_standalone_broker_every_leader_is_preferred() -> None:
    """PL-1: a request for all topics gets their names, and no partitions."""
    lab = BrokerLab()
    lab.create("t")
    named = (TopicPartitions(topic="t", partitions=(0, 9)),)
    response = lab.ask(ElectLeadersRequest(topic_partitions=named), ElectLeadersResponse)
    (result,) = response.replica_election_results
    assert [each.error_code for each in result.partition_result] == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    everything = lab.ask(ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse)
    assert everything == ElectLeadersResponse(
        replica_election_results=(ReplicaElectionResult(topic="t"),)
    )
    wrong = ElectLeadersRequest(election_type=9, topic_partitions=named)
    response = lab.ask(wrong, ElectLeadersResponse)
    assert response.error_code is ErrorCode.INVALID_REQUEST
    assert len(response.replica_election_results[0].partition_result) == 2


def test_standalone_broker_has_no_reassignments() -> None:
    """RA-1."""
    lab = BrokerLab()
    lab.create("t", 4)
    targets: list[tuple[int, ...] | None] = [(0,), None, (0, 1), ()]
    asked = ReassignableTopic(
        name="t",
        partitions=tuple(
            ReassignablePartition(partition_index=number, replicas=replicas)
            for number, replicas in enumerate(targets)
        ),
    )
    request = AlterPartitionReassignmentsRequest(
        topics=(asked,), allow_replication_factor_change=False
    )
    response = lab.ask(request, AlterPartitionReassignmentsResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert not response.allow_replication_factor_change
    assert [each.error_code for each in response.responses[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ]
    listing = lab.ask(
        ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse
    )
    assert listing == ListPartitionReassignmentsResponse()


def test_live_broker_is_not_unregistered_and_metadata_version_cannot_change() -> None:
    lab = BrokerLab()
    for broker_id, code in [(0, "INVALID_REQUEST"), (9, "BROKER_ID_NOT_REGISTERED")]:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        assert lab.ask(request, UnregisterBrokerResponse).error_code is ErrorCode[code]
    assert lab.ask(UpdateFeaturesRequest(), UpdateFeaturesResponse) == UpdateFeaturesResponse()
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=27)
    for version in (0, 1, 2):
        response = lab.ask(
            UpdateFeaturesRequest(feature_updates=(update,)), UpdateFeaturesResponse, version
        )
        assert response.error_code is ErrorCode.INVALID_UPDATE_VERSION
        assert "metadata.version" in (response.error_message or "")


def test_telemetry_is_not_requested_but_pushes_are_answered() -> None:
    """KIP-714."""
    lab = BrokerLab()
    told = lab.ask(GetTelemetrySubscriptionsRequest(), GetTelemetrySubscriptionsResponse)
    assert told.client_instance_id != NO_TOPIC_ID
    assert told.requested_metrics == ()
    again = GetTelemetrySubscriptionsRequest(client_instance_id=told.client_instance_id)
    assert lab.ask(again, GetTelemetrySubscriptionsResponse) == told

    def push(client: TopicId, subscription: int, codec: int = 0, size: int = 1) -> ErrorCode:
        request = PushTelemetryRequest(
            client_instance_id=client,
            subscription_id=subscription,
            compression_type=codec,
            metrics=bytes(size),
        )
        return lab.ask(request, PushTelemetryResponse).error_code

    client, subscription = told.client_instance_id, told.subscription_id
    assert push(client, subscription) is ErrorCode.NONE
    assert push(client, subscription + 1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert push(NO_TOPIC_ID, subscription) is ErrorCode.INVALID_REQUEST
    assert push(client, subscription, codec=9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert push(client, subscription, size=1 << 21) is ErrorCode.TELEMETRY_TOO_LARGE

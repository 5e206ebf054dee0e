"""Every served API has a handler and an error response."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest

from headwater.broker.requests import api_routes
from headwater.broker.requests.api_routes import SERVED_APIS, UNANNOUNCED_APIS, route_of
from headwater.broker.requests.request_handler import redacted
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import response_class, write
from headwater.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    envelope,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.older_versions import Message
from tests.simulation.labs.broker_lab import BrokerLab
from tests.simulation.labs.cluster_lab import topic

REQUESTS: list[Message] = [
    offset_commit.OffsetCommitRequest(
        group_id="g",
        topics=(
            offset_commit.OffsetCommitRequestTopic(
                name="t", partitions=(offset_commit.OffsetCommitRequestPartition(),)
            ),
        ),
    ),
    offset_fetch.OffsetFetchRequest(
        groups=(
            offset_fetch.OffsetFetchRequestGroup(
                group_id="g",
                topics=(offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),),
            ),
        ),
    ),
    offset_delete.OffsetDeleteRequest(group_id="g"),
    join_group.JoinGroupRequest(group_id="g"),
    sync_group.SyncGroupRequest(group_id="g"),
    heartbeat.HeartbeatRequest(group_id="g"),
    leave_group.LeaveGroupRequest(group_id="g", members=(leave_group.MemberIdentity(),)),
    describe_groups.DescribeGroupsRequest(groups=("g",)),
    list_groups.ListGroupsRequest(),
    delete_groups.DeleteGroupsRequest(groups_names=("g",)),
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id="g"),
    consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=("g",)),
    add_partitions_to_txn.AddPartitionsToTxnRequest(
        transactions=(
            add_partitions_to_txn.AddPartitionsToTxnTransaction(
                transactional_id="x",
                topics=(add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=(3,)),),
            ),
        )
    ),
    add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id="x", group_id="g"),
    end_txn.EndTxnRequest(transactional_id="x"),
    write_txn_markers.WriteTxnMarkersRequest(
        markers=(
            write_txn_markers.WritableTxnMarker(
                topics=(
                    write_txn_markers.WritableTxnMarkerTopic(name="t", partition_indexes=(3,)),
                ),
            ),
        )
    ),
    txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        topics=(
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name="t", partitions=(txn_offset_commit.TxnOffsetCommitRequestPartition(),)
            ),
        ),
    ),
    describe_transactions.DescribeTransactionsRequest(transactional_ids=("x",)),
    list_transactions.ListTransactionsRequest(),
    produce.ProduceRequest(
        acks=1,
        topic_data=(
            produce.TopicProduceData(
                name="t", partition_data=(produce.PartitionProduceData(index=3, records=None),)
            ),
        ),
    ),
    fetch.FetchRequest(
        topics=(fetch.FetchTopic(topic="t", partitions=(fetch.FetchPartition(partition=3),)),),
    ),
    list_offsets.ListOffsetsRequest(
        topics=(
            list_offsets.ListOffsetsTopic(
                name="t", partitions=(list_offsets.ListOffsetsPartition(partition_index=3),)
            ),
        )
    ),
    metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name="t"),)),
    find_coordinator.FindCoordinatorRequest(coordinator_keys=("g",)),
    create_topics.CreateTopicsRequest(topics=(topic("t"),)),
    delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="t"),)),
    delete_records.DeleteRecordsRequest(
        topics=(
            delete_records.DeleteRecordsTopic(
                name="t", partitions=(delete_records.DeleteRecordsPartition(partition_index=3),)
            ),
        )
    ),
    init_producer_id.InitProducerIdRequest(transactional_id=None),
    offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=(
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic="t",
                partitions=(offset_for_leader_epoch.OffsetForLeaderPartition(partition=3),),
            ),
        )
    ),
    describe_acls.DescribeAclsRequest(
        resource_type_filter=2, resource_name_filter="no", operation=3, permission_type=3
    ),
    create_acls.CreateAclsRequest(
        creations=(
            create_acls.AclCreation(
                resource_type=2, resource_name="no", operation=3, permission_type=3
            ),
        )
    ),
    delete_acls.DeleteAclsRequest(
        filters=(
            delete_acls.DeleteAclsFilter(
                resource_type_filter=2, resource_name_filter="no", operation=3, permission_type=3
            ),
        )
    ),
    describe_configs.DescribeConfigsRequest(
        resources=(describe_configs.DescribeConfigsResource(resource_type=2, resource_name="t"),)
    ),
    describe_client_quotas.DescribeClientQuotasRequest(),
    alter_client_quotas.AlterClientQuotasRequest(entries=(alter_client_quotas.EntryData(),)),
    alter_configs.AlterConfigsRequest(
        resources=(alter_configs.AlterConfigsResource(resource_type=2, resource_name="t"),)
    ),
    alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=(
            alter_replica_log_dirs.AlterReplicaLogDir(
                path="/data",
                topics=(alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=(3,)),),
            ),
        )
    ),
    describe_log_dirs.DescribeLogDirsRequest(topics=None),
    create_partitions.CreatePartitionsRequest(
        topics=(create_partitions.CreatePartitionsTopic(name="t"),)
    ),
    elect_leaders.ElectLeadersRequest(
        topic_partitions=(elect_leaders.TopicPartitions(topic="t", partitions=(3,)),)
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=(
            incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="t"),
        )
    ),
    alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=(
            alter_partition_reassignments.ReassignableTopic(
                name="t",
                partitions=(
                    alter_partition_reassignments.ReassignablePartition(partition_index=3),
                ),
            ),
        )
    ),
    list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
    update_features.UpdateFeaturesRequest(),
    describe_cluster.DescribeClusterRequest(),
    describe_producers.DescribeProducersRequest(
        topics=(describe_producers.TopicRequest(name="t", partition_indexes=(3,)),)
    ),
    unregister_broker.UnregisterBrokerRequest(),
    get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(),
    push_telemetry.PushTelemetryRequest(),
    describe_user_scram_credentials.DescribeUserScramCredentialsRequest(),
    alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=(alter_user_scram_credentials.ScramCredentialDeletion(name="alice"),)
    ),
    sasl_authenticate.SaslAuthenticateRequest(),
    sasl_handshake.SaslHandshakeRequest(),
    list_config_resources.ListConfigResourcesRequest(),
    describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=(describe_topic_partitions.TopicRequest(name="t"),)
    ),
]
BY_KEY = {request.api: request for request in REQUESTS}


def errors_in(part: object) -> Iterator[object]:
    """Yield every error code field, at any depth."""
    if isinstance(part, tuple):
        for each in part:
            yield from errors_in(each)
    elif is_dataclass(part):
        for each in fields(part):
            value = getattr(part, each.name)
            if each.name in ("error_code", "partition_error_code"):
                yield value
            else:
                yield from errors_in(value)


def test_every_served_api_is_tested_below() -> None:
    assert sorted(BY_KEY) == sorted(key for key in SERVED_APIS if key is not ApiKey.API_VERSIONS)
    assert len(BY_KEY) == len(REQUESTS)


@pytest.mark.parametrize("key", sorted(BY_KEY), ids=lambda key: APIS[key].name)
def test_failed_request_has_its_error_where_clients_look(key: ApiKey) -> None:
    """At the top level, in every requested item, or in both; in every version."""
    request, code = BY_KEY[key], ErrorCode.NOT_CONTROLLER
    response = route_of(key).error_response(request, ApiError(code, "there is another one"))
    assert isinstance(response, response_class(key))
    found = list(errors_in(response))
    assert found
    assert set(found) == {code}
    api = APIS[key]
    for version in range(api.oldest, api.newest + 1):
        assert write(response, version)


@pytest.mark.parametrize("key", sorted(BY_KEY), ids=lambda key: APIS[key].name)
def test_failing_handler_is_answered_and_the_broker_keeps_running(
    key: ApiKey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lab = BrokerLab()
    route = route_of(key)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(
        "headwater.broker.requests.request_handler.route_of",
        lambda _: api_routes.Route(fail, route.error_response),
    )
    # The newest versions of these name topics by id.
    version = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12}.get(key)
    response = lab.ask(BY_KEY[key], response_class(key), version)
    assert set(errors_in(response)) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert "a mistake of ours" in caplog.text
    (count,) = lab.dispatch.counters[key].errors.values()
    assert count == 1


@pytest.mark.parametrize(
    "request_",
    [
        alter_configs.AlterConfigsRequest(
            resources=(
                alter_configs.AlterConfigsResource(
                    configs=(alter_configs.AlterableConfig(name="a", value="tops3cret"),)
                ),
            )
        ),
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(
                incremental_alter_configs.AlterConfigsResource(
                    configs=(
                        incremental_alter_configs.AlterableConfig(name="a", value="tops3cret"),
                    )
                ),
            )
        ),
        sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"tops3cret"),
        envelope.EnvelopeRequest(request_data=b"tops3cret"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_sensitive_requests_are_redacted_in_the_log(request_: Message) -> None:
    assert "tops3cret" in repr(request_)
    assert redacted(request_) == "[redacted]"


def test_failed_fetch_by_id_has_a_top_level_error_only() -> None:
    asked = fetch.FetchTopic(
        topic_id=TopicId(b"x" * 16), partitions=(fetch.FetchPartition(partition=3),)
    )
    request = fetch.FetchRequest(session_id=9, topics=(asked,))
    refusal = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert route_of(ApiKey.FETCH).error_response(request, refusal) == fetch.FetchResponse(
        error_code=ErrorCode.UNKNOWN_SERVER_ERROR, session_id=9
    )


def test_unannounced_apis_are_served() -> None:
    """Telemetry: Kafka 4.1 does not announce it without a receiver, but answers it."""
    lab = BrokerLab()
    request = ApiVersionsRequest(client_software_name="lab", client_software_version="1")
    announced = {each.api_key for each in lab.ask(request, ApiVersionsResponse).api_keys}
    assert announced == {int(key) for key in SERVED_APIS if key not in UNANNOUNCED_APIS}
    response = lab.ask(
        get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(),
        get_telemetry_subscriptions.GetTelemetrySubscriptionsResponse,
    )
    assert not response.error_code

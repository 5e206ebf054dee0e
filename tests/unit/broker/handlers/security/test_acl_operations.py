"""Operations that every API needs, and its errors without them (AC-4).

The rules are Kafka's (KafkaApis and ControllerApis of 4.1), checked with the real authorizer. An
API that is served but has no row fails the first test below: add a row.
"""

from dataclasses import dataclass, replace
from typing import Final

import pytest

from headwater.broker.requests.api_routes import SERVED_APIS
from headwater.common.error_codes import ErrorCode
from headwater.common.principal import Principal
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import response_class
from headwater.protocol.messages import (
    alter_configs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    delete_topics,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    metadata,
    offset_commit,
    offset_delete,
    produce,
    sync_group,
)
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.security.authorization.acl_authorizer import AclAuthorizer
from headwater.security.authorization.acl_bindings import AclEntry, Permission, ResourcePattern
from headwater.security.authorization.authorizer import Authorizer, Operation, ResourceKind
from tests.simulation.labs.broker_lab import BrokerLab, Peer
from tests.unit.broker.requests.test_api_routes import BY_KEY, errors_in

ALICE: Final = Principal("User", "alice")

Right = tuple[ResourceKind, str, Operation]


def _on(kind: ResourceKind, name: str, operation: str) -> Right:
    return kind, name, Operation[operation]


def topic(operation: str) -> Right:
    return _on(ResourceKind.TOPIC, "t", operation)


def group(operation: str) -> Right:
    return _on(ResourceKind.GROUP, "g", operation)


def transaction(operation: str) -> Right:
    return _on(ResourceKind.TRANSACTIONAL_ID, "x", operation)


def cluster(operation: str) -> Right:
    return _on(ResourceKind.CLUSTER, "kafka-cluster", operation)


CODES: Final = {
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A request and the operations it needs, in the order in which they are checked."""

    key: ApiKey
    needs: tuple[Right, ...] = ()
    request: Message | None = None
    version: int | None = None

    @property
    def asked(self) -> Message:
        return BY_KEY[self.key] if self.request is None else self.request


def row(
    key: ApiKey, *needs: Right, request: Message | None = None, version: int | None = None
) -> Row:
    return Row(key=key, needs=needs, request=request, version=version)


def _transactional_produce() -> Message:
    batch = build_batch(
        [Record(value=b"v")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    data = produce.PartitionProduceData(index=0, records=memoryview(batch))
    topics = (produce.TopicProduceData(name="t", partition_data=(data,)),)
    return produce.ProduceRequest(transactional_id="x", acks=1, topic_data=topics)


def _configs_of(kind: int, name: str) -> tuple[Message, Message, Message]:
    described = describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name)
    altered = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name)
    changed = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name)
    return (
        describe_configs.DescribeConfigsRequest(resources=(described,)),
        alter_configs.AlterConfigsRequest(resources=(altered,)),
        incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(changed,)),
    )


# Of all brokers; a request about one broker goes to that broker, which Kafka checks first.
_OF_BROKER: Final = _configs_of(4, "")
_OF_GROUP: Final = _configs_of(32, "g")
_OF_METRICS: Final = _configs_of(16, "m")

ROWS: Final = [
    row(ApiKey.PRODUCE, topic("WRITE"), version=12),
    row(
        ApiKey.PRODUCE,
        transaction("WRITE"),
        topic("WRITE"),
        request=_transactional_produce(),
        version=12,
    ),
    row(ApiKey.FETCH, topic("READ"), version=12),
    row(ApiKey.LIST_OFFSETS, topic("DESCRIBE")),
    row(ApiKey.METADATA, topic("DESCRIBE")),
    row(ApiKey.OFFSET_COMMIT, group("READ"), topic("READ"), version=9),
    row(ApiKey.OFFSET_FETCH, group("DESCRIBE"), topic("DESCRIBE"), version=9),
    row(ApiKey.FIND_COORDINATOR, group("DESCRIBE")),
    row(
        ApiKey.FIND_COORDINATOR,
        transaction("DESCRIBE"),
        request=find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=("x",)),
    ),
    row(ApiKey.JOIN_GROUP, group("READ")),
    row(ApiKey.HEARTBEAT, group("READ")),
    row(ApiKey.LEAVE_GROUP, group("READ")),
    row(
        ApiKey.SYNC_GROUP,
        group("READ"),
        # Kafka validates these before it authorizes them.
        request=sync_group.SyncGroupRequest(
            group_id="g", protocol_type="consumer", protocol_name="range"
        ),
    ),
    row(ApiKey.DESCRIBE_GROUPS, group("DESCRIBE")),
    row(ApiKey.LIST_GROUPS),
    row(ApiKey.CREATE_TOPICS, topic("CREATE")),
    row(
        ApiKey.DELETE_TOPICS,
        topic("DELETE"),
        request=delete_topics.DeleteTopicsRequest(
            topics=(delete_topics.DeleteTopicState(name="t"),), timeout_ms=1_000
        ),
    ),
    row(ApiKey.DELETE_RECORDS, topic("DELETE")),
    row(ApiKey.INIT_PRODUCER_ID, cluster("IDEMPOTENT_WRITE")),
    row(
        ApiKey.INIT_PRODUCER_ID,
        transaction("WRITE"),
        request=init_producer_id.InitProducerIdRequest(
            transactional_id="x", transaction_timeout_ms=1_000
        ),
    ),
    row(ApiKey.OFFSET_FOR_LEADER_EPOCH, topic("DESCRIBE")),
    row(ApiKey.ADD_PARTITIONS_TO_TXN, transaction("WRITE"), topic("WRITE"), version=3),
    row(ApiKey.ADD_PARTITIONS_TO_TXN, cluster("CLUSTER_ACTION")),
    row(ApiKey.ADD_OFFSETS_TO_TXN, transaction("WRITE"), group("READ")),
    row(ApiKey.END_TXN, transaction("WRITE")),
    row(ApiKey.WRITE_TXN_MARKERS, cluster("CLUSTER_ACTION")),
    row(ApiKey.WRITE_TXN_MARKERS, cluster("ALTER")),
    row(ApiKey.TXN_OFFSET_COMMIT, transaction("WRITE"), group("READ"), topic("READ")),
    row(ApiKey.DESCRIBE_ACLS, cluster("DESCRIBE")),
    row(ApiKey.CREATE_ACLS, cluster("ALTER")),
    row(ApiKey.DELETE_ACLS, cluster("ALTER")),
    row(ApiKey.DESCRIBE_CONFIGS, topic("DESCRIBE_CONFIGS")),
    row(ApiKey.DESCRIBE_CONFIGS, cluster("DESCRIBE_CONFIGS"), request=_OF_BROKER[0]),
    row(ApiKey.DESCRIBE_CONFIGS, group("DESCRIBE_CONFIGS"), request=_OF_GROUP[0]),
    row(ApiKey.DESCRIBE_CONFIGS, cluster("DESCRIBE_CONFIGS"), request=_OF_METRICS[0]),
    row(ApiKey.ALTER_CONFIGS, topic("ALTER_CONFIGS")),
    row(ApiKey.ALTER_CONFIGS, cluster("ALTER_CONFIGS"), request=_OF_BROKER[1]),
    row(ApiKey.ALTER_CONFIGS, group("ALTER_CONFIGS"), request=_OF_GROUP[1]),
    row(ApiKey.INCREMENTAL_ALTER_CONFIGS, topic("ALTER_CONFIGS")),
    row(ApiKey.INCREMENTAL_ALTER_CONFIGS, cluster("ALTER_CONFIGS"), request=_OF_BROKER[2]),
    row(ApiKey.INCREMENTAL_ALTER_CONFIGS, group("ALTER_CONFIGS"), request=_OF_GROUP[2]),
    row(ApiKey.ALTER_REPLICA_LOG_DIRS, cluster("ALTER")),
    row(ApiKey.DESCRIBE_LOG_DIRS, cluster("DESCRIBE")),
    row(
        ApiKey.CREATE_PARTITIONS,
        topic("ALTER"),
        request=create_partitions.CreatePartitionsRequest(
            topics=(create_partitions.CreatePartitionsTopic(name="t"),), timeout_ms=1_000
        ),
    ),
    row(ApiKey.DELETE_GROUPS, group("DELETE")),
    row(ApiKey.ELECT_LEADERS, cluster("ALTER")),
    row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, cluster("ALTER")),
    row(ApiKey.LIST_PARTITION_REASSIGNMENTS, cluster("DESCRIBE")),
    row(
        ApiKey.OFFSET_DELETE,
        group("DELETE"),
        topic("READ"),
        request=offset_delete.OffsetDeleteRequest(
            group_id="g",
            topics=(
                offset_delete.OffsetDeleteRequestTopic(
                    name="t", partitions=(offset_delete.OffsetDeleteRequestPartition(),)
                ),
            ),
        ),
    ),
    row(ApiKey.UPDATE_FEATURES, cluster("ALTER")),
    row(ApiKey.DESCRIBE_CLUSTER),
    row(ApiKey.DESCRIBE_PRODUCERS, topic("READ")),
    row(ApiKey.UNREGISTER_BROKER, cluster("ALTER")),
    row(ApiKey.DESCRIBE_TRANSACTIONS, transaction("DESCRIBE")),
    row(ApiKey.LIST_TRANSACTIONS),
    row(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS),
    row(ApiKey.PUSH_TELEMETRY),
    row(ApiKey.LIST_CONFIG_RESOURCES, cluster("DESCRIBE_CONFIGS")),
    row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topic("DESCRIBE")),
    row(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        group("READ"),
        topic("DESCRIBE"),
        request=consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        ),
    ),
    row(ApiKey.CONSUMER_GROUP_DESCRIBE, group("DESCRIBE")),
    row(ApiKey.DESCRIBE_CLIENT_QUOTAS, cluster("DESCRIBE_CONFIGS")),
    row(ApiKey.ALTER_CLIENT_QUOTAS, cluster("ALTER_CONFIGS")),
    row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, cluster("DESCRIBE")),
    row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, cluster("ALTER")),
]
_ON_ITS_WAY_IN: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""Served before authentication."""

TRIED: Final = [each for each in ROWS if each.key in BY_KEY]
NEEDY: Final = [each for each in TRIED if each.needs]


def lab_with(*rights: Right) -> BrokerLab:
    """A broker with two topics, one of which no principal may access."""
    authorizer = AclAuthorizer(super_users=["User:ANONYMOUS"])
    lab = new_lab(authorizer)
    lab.create("t", 4)
    lab.create("secret-topic")
    by_pattern: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for kind, name, operation in rights:
        entry = AclEntry(str(ALICE), "192.0.2.1", operation, Permission.ALLOW)
        pattern = ResourcePattern(kind, name)
        by_pattern[pattern] = (*by_pattern.get(pattern, ()), entry)
    for pattern, entries in by_pattern.items():
        authorizer.replace(pattern, entries)
    return lab


def new_lab(authorizer: Authorizer) -> BrokerLab:
    """A broker that coordinates, and has a group."""
    few = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    lab = BrokerLab(few, authorizer=authorizer)
    for key_type in (0, 1):
        request = find_coordinator.FindCoordinatorRequest(
            key_type=key_type, coordinator_keys=("any",)
        )
        lab.ask(request, find_coordinator.FindCoordinatorResponse)
    lab.create("other")
    place = offset_commit.OffsetCommitRequestTopic(
        name="other", partitions=(offset_commit.OffsetCommitRequestPartition(),)
    )
    commit = offset_commit.OffsetCommitRequest(group_id="g", topics=(place,))
    lab.ask(commit, offset_commit.OffsetCommitResponse, 9)
    return lab


def errors_and_text(lab: BrokerLab, tried: Row) -> tuple[set[object], str]:
    """Return the errors and the text of a response; nothing for a waiting one."""
    sent = lab.send(tried.asked, tried.version, Peer(ALICE))
    lab.turn()
    if not sent.is_answered:
        return set(), ""
    answer = sent.answer(response_class(tried.key))
    return set(errors_in(answer)), repr(answer)


def named(tried: Row) -> str:
    return f"{tried.key.name}-{'+'.join(f'{n}.{o.name}' for _, n, o in tried.needs)}"


def test_every_served_api_is_in_the_table() -> None:
    rows = {each.key for each in ROWS}
    assert [key.name for key in SERVED_APIS if key not in rows and key not in _ON_ITS_WAY_IN] == []


@pytest.mark.parametrize("tried", TRIED, ids=named)
def test_without_any_operation_the_request_is_rejected_and_reveals_nothing(tried: Row) -> None:
    """AC-5: it names nothing that the request did not name."""
    codes, words = errors_and_text(lab_with(), tried)
    assert codes & set(CODES.values()) == {CODES[kind] for kind, *_ in tried.needs[:1]}
    assert "secret" not in words


@pytest.mark.parametrize("tried", NEEDY, ids=named)
def test_exactly_the_needed_operations_suffice(tried: Row) -> None:
    codes, words = errors_and_text(lab_with(*tried.needs), tried)
    assert not codes & set(CODES.values())
    if tried.key not in (ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LIST_CONFIG_RESOURCES):
        # Describe on the cluster implies those two.
        assert "secret" not in words


@pytest.mark.parametrize("tried", NEEDY, ids=named)
def test_each_missing_operation_has_its_own_error(tried: Row) -> None:
    for missing in tried.needs:
        others = [each for each in tried.needs if each != missing]
        codes, _ = errors_and_text(lab_with(*others), tried)
        assert codes & set(CODES.values()) == {CODES[missing[0]]}


@pytest.mark.parametrize("tried", NEEDY, ids=named)
def test_operation_on_another_resource_does_not_count(tried: Row) -> None:
    others = [
        (kind, f"{name}-other", operation)
        for kind, name, operation in tried.needs
        if kind is not ResourceKind.CLUSTER
    ]
    codes, _ = errors_and_text(lab_with(*others), tried)
    assert CODES[tried.needs[0][0]] in codes


@pytest.mark.parametrize(
    "tried",
    [each for each in NEEDY if any(kind is ResourceKind.TOPIC for kind, *_ in each.needs)],
    ids=named,
)
def test_response_does_not_reveal_whether_a_hidden_topic_exists(tried: Row) -> None:
    """AC-5"""
    rights = [each for each in tried.needs if each[0] is not ResourceKind.TOPIC]
    lab = lab_with(*rights)
    there = errors_and_text(lab, tried)
    empty = new_lab(lab.broker.authorizer)
    assert "t" not in empty.broker.image.topics
    assert errors_and_text(empty, tried)[0] == there[0]


def test_write_on_any_topic_allows_init_producer_id() -> None:
    """PV-8"""
    tried = row(ApiKey.INIT_PRODUCER_ID)
    codes, _ = errors_and_text(lab_with(topic("WRITE")), tried)
    assert codes == {ErrorCode.NONE}
    codes, _ = errors_and_text(lab_with(topic("READ")), tried)
    assert codes == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


def test_missing_topic_is_created_only_for_authorized_clients() -> None:
    """TO-6"""
    asked = metadata.MetadataRequest(
        topics=(metadata.MetadataRequestTopic(name="new"),), allow_auto_topic_creation=True
    )
    new = ResourceKind.TOPIC, "new"
    tried = row(ApiKey.METADATA, request=asked)
    lab = lab_with((*new, Operation.DESCRIBE))
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in errors_and_text(lab, tried)[0]
    assert "new" not in lab.broker.image.topics
    lab = lab_with((*new, Operation.CREATE))
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in errors_and_text(lab, tried)[0]
    assert "new" not in lab.broker.image.topics
    lab = lab_with((*new, Operation.DESCRIBE), (*new, Operation.CREATE))
    errors_and_text(lab, tried)
    assert "new" in lab.broker.image.topics
    lab = lab_with((*new, Operation.DESCRIBE), cluster("CREATE"))
    errors_and_text(lab, tried)
    assert "new" in lab.broker.image.topics


def test_coordinator_topic_is_not_created_for_unauthorized_clients() -> None:
    lab = BrokerLab(authorizer=lab_with().broker.authorizer)
    errors_and_text(lab, row(ApiKey.FIND_COORDINATOR))
    assert "__consumer_offsets" not in lab.broker.image.topics
    lab = BrokerLab(authorizer=lab_with(group("DESCRIBE")).broker.authorizer)
    errors_and_text(lab, row(ApiKey.FIND_COORDINATOR))
    assert "__consumer_offsets" in lab.broker.image.topics


def test_follower_fetch_needs_cluster_action() -> None:
    request = BY_KEY[ApiKey.FETCH]
    assert isinstance(request, fetch.FetchRequest)
    as_follower = row(
        ApiKey.FETCH, topic("READ"), request=replace(request, replica_id=1), version=12
    )
    codes, _ = errors_and_text(lab_with(topic("READ")), as_follower)
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes
    codes, _ = errors_and_text(lab_with(cluster("CLUSTER_ACTION")), as_follower)
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED not in codes


def test_subscription_pattern_matches_only_topics_the_member_may_describe() -> None:
    """A member learns the topics it is assigned, so hidden topics must not be assigned."""
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g-new",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_regex=".*",
        topic_partitions=(),
    )
    lab = lab_with((ResourceKind.GROUP, "g-new", Operation.READ), topic("READ"))
    sent = lab.send(request, 1, Peer(ALICE))
    lab.turn()
    answer = sent.answer(consumer_group_heartbeat.ConsumerGroupHeartbeatResponse)
    assert not answer.error_code, answer
    assert answer.assignment is not None
    given = [
        lab.broker.image.names_by_id[each.topic_id] for each in answer.assignment.topic_partitions
    ]
    assert given == ["t"]


def test_group_is_described_completely_or_not_at_all() -> None:
    rights = [group("READ"), topic("DESCRIBE")]
    described = row(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        request=consumer_group_describe.ConsumerGroupDescribeRequest(
            group_ids=("g-new",), include_authorized_operations=True
        ),
    )
    on_group = ResourceKind.GROUP, "g-new", Operation.READ
    lab = lab_with(*rights, on_group)
    heartbeat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g-new",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    lab.send(heartbeat, 1, Peer(ALICE))
    lab.turn()
    answer = lab.ask(
        described.asked, consumer_group_describe.ConsumerGroupDescribeResponse, peer=Peer(ALICE)
    )
    assert answer.groups[0].error_code is ErrorCode.NONE
    assert answer.groups[0].authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    authorizer = lab.broker.authorizer
    assert isinstance(authorizer, AclAuthorizer)
    authorizer.replace(ResourcePattern(ResourceKind.TOPIC, "t"), ())
    codes, words = errors_and_text(lab, described)
    assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert "topic_name='t'" not in words


def test_heartbeat_with_an_unauthorized_topic_is_rejected() -> None:
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("t", "secret-topic"),
        topic_partitions=(),
    )
    tried = row(ApiKey.CONSUMER_GROUP_HEARTBEAT, request=request)
    codes, _ = errors_and_text(lab_with(group("READ"), topic("READ")), tried)
    assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}

"""Our admin client with our broker, checked with librdkafka's."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka.admin._config import ConfigResource as TheirResource
from confluent_kafka.admin._resource import ResourceType as TheirType

from headwater.client import (
    Acl,
    Admin,
    ConfigChange,
    ConfigResource,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    ResourceKind,
    TopicPartition,
    aio,
)
from headwater.client.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidConfig,
    KafkaError,
    KafkaTimeout,
    NonEmptyGroup,
    OffsetOutOfRange,
    SomeFailed,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from headwater.common.config_types import ConfigOperation, ConfigSource
from headwater.common.error_codes import ErrorCode
from tests.compat.clients import TIMEOUT_S, Deadline, Sending, Sent, write
from tests.compat.judges import CONFLUENT
from tests.compat.topics import admin_of


@pytest.fixture
def ours(servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=servers) as opened:
        yield opened


def test_topics_are_created_described_grown_and_deleted(
    ours: Admin, servers: str, topic: str
) -> None:
    topic_id = ours.create_topic(topic, partitions=2, configs={"retention.ms": 1000})
    assert topic in ours.list_topics()
    described = ours.describe_topics([topic])[topic]
    assert described.topic_id == topic_id
    assert [(each.partition, each.leader_id) for each in described.partitions] == [(0, 0), (1, 0)]
    ours.create_partitions({topic: 3})
    assert len(ours.describe_topics([topic])[topic].partitions) == 3
    theirs = admin_of(servers).list_topics(topic, TIMEOUT_S).topics[topic]
    assert len(theirs.partitions) == 3
    ours.delete_topics([topic_id])
    with pytest.raises(UnknownTopicOrPartition):
        ours.describe_topics([topic])


def test_one_failure_is_raised_itself_and_several_together(ours: Admin, topic: str) -> None:
    ours.create_topic(topic)
    with pytest.raises(TopicAlreadyExists, match=topic):
        ours.create_topic(topic)
    with pytest.raises(SomeFailed) as failed:
        ours.create_topics([NewTopic(name=topic), NewTopic(name=f"{topic}-2")])
    assert list(failed.value.results) == [f"{topic}-2"]
    assert isinstance(failed.value.errors[topic], TopicAlreadyExists)


def test_validate_only_creates_no_topic(ours: Admin, topic: str) -> None:
    ours.create_topics([NewTopic(name=topic, assignments={0: [0]})], validate_only=True)
    assert topic not in ours.list_topics()


def test_configs_are_set_appended_and_deleted(ours: Admin, servers: str, topic: str) -> None:
    ours.create_topic(topic)
    resource = ConfigResource.topic(topic)
    ours.alter_configs(
        {resource: {"retention.ms": 5000, "cleanup.policy": "compact", "preallocate": True}}
    )
    ours.alter_configs(
        {resource: {"cleanup.policy": ConfigChange(ConfigOperation.APPEND, "delete")}}
    )
    configs = ours.describe_configs([resource])[resource]
    assert configs["retention.ms"].value == "5000"
    assert configs["preallocate"].value == "true"
    assert configs["retention.ms"].source is ConfigSource.TOPIC_CONFIG
    assert configs["cleanup.policy"].value == "compact,delete"
    theirs = TheirResource(TheirType.TOPIC, topic)
    their_admin = admin_of(servers)
    seen = their_admin.describe_configs([theirs])[theirs].result(TIMEOUT_S)
    assert {name: entry.value for name, entry in seen.items()} == {
        name: entry.value for name, entry in configs.items()
    }
    ours.alter_configs({resource: {"retention.ms": None}})
    one = ours.describe_configs([resource], names=["retention.ms"])[resource]
    assert list(one) == ["retention.ms"]
    assert one["retention.ms"].is_default
    with pytest.raises(InvalidConfig):
        ours.alter_configs({resource: {"retention.ms": "soon"}})


def test_broker_configs_are_requested_from_that_broker(ours: Admin) -> None:
    resource = ConfigResource.broker(0)
    assert ours.describe_configs([resource], names=["num.partitions"])[resource]


def test_records_before_an_offset_are_deleted(ours: Admin, servers: str, topic: str) -> None:
    ours.create_topic(topic)
    write(CONFLUENT, servers, topic, [Sent(value=b"x")] * 5)
    place = TopicPartition(topic, 0)
    assert ours.delete_records({place: 3}) == {place: 3}
    assert ours.list_offsets({place: -2})[place].offset == 3
    assert ours.list_offsets({place: -1})[place].offset == 5
    with pytest.raises(OffsetOutOfRange):
        ours.delete_records({place: 9})


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_both_protocols_are_listed_described_and_deleted(
    ours: Admin, servers: str, topic: str, protocol: str
) -> None:
    ours.create_topic(topic, partitions=2)
    places = [TopicPartition(topic, number) for number in range(2)]
    with Consumer(
        bootstrap_servers=servers,
        group_id=topic,
        group_protocol=protocol,
        client_id="me",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([topic])
        deadline = Deadline("an assignment")
        while len(consumer.assignment()) < 2:
            consumer.poll(0.05)
            deadline.check()
        consumer.commit({places[0]: 7})
        listed = {each.group_id: each for each in ours.list_groups()}[topic]
        assert (listed.type.lower(), listed.state) == (protocol, "Stable")
        described = ours.describe_groups([topic])[topic]
        assert (described.type, described.state) == (protocol, "Stable")
        (member,) = described.members
        assert member.client_id == "me"
        assert sorted(member.assignment) == places
        with pytest.raises(NonEmptyGroup):
            ours.delete_groups([topic])
        with pytest.raises(GroupSubscribedToTopic):
            ours.delete_group_offsets(topic, [places[0]])
    ours.alter_group_offsets(topic, {places[1]: OffsetAndMetadata(9, "note")})
    offsets = ours.list_group_offsets(topic)
    assert (offsets[places[0]].offset, offsets[places[1]]) == (7, OffsetAndMetadata(9, "note"))
    ours.delete_group_offsets(topic, [places[0]])
    assert list(ours.list_group_offsets(topic)) == [places[1]]
    ours.delete_groups([topic])
    with pytest.raises(GroupIdNotFound):
        ours.describe_groups([topic])


def test_static_members_can_be_removed(ours: Admin, servers: str, topic: str) -> None:
    ours.create_topic(topic)
    with Consumer(bootstrap_servers=servers, group_id=topic, group_instance_id="one") as consumer:
        consumer.subscribe([topic])
        deadline = Deadline("an assignment")
        while not consumer.assignment():
            consumer.poll(0.05)
            deadline.check()
    assert len(ours.describe_groups([topic])[topic].members) == 1
    ours.remove_members(topic, ["one"])
    assert ours.describe_groups([topic])[topic].members == ()


def test_cluster_is_described(ours: Admin, servers: str, topic: str) -> None:
    cluster = ours.describe_cluster()
    assert cluster.controller_id == 0
    assert [str(broker.address) for broker in cluster.brokers] == [servers]
    assert all(each.finalized >= 0 for each in ours.describe_features().values())
    ours.create_topic(topic)
    write(CONFLUENT, servers, topic, [Sent(value=b"x")])
    (log_dir,) = ours.describe_log_dirs()[0]
    assert log_dir.replicas[TopicPartition(topic, 0)].size_bytes > 0
    assert ours.list_partition_reassignments() == {}
    outcome = ours.elect_leaders([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert outcome is not None
    assert outcome.code is ErrorCode.ELECTION_NOT_NEEDED


def test_unsupported_requests_are_named_errors(ours: Admin, topic: str) -> None:
    for call in (
        lambda: ours.describe_acls(Acl()),
        lambda: ours.create_acls([Acl(resource_type=ResourceKind.TOPIC, resource_name=topic)]),
        lambda: ours.delete_acls([Acl()]),
    ):
        with pytest.raises(KafkaError) as refused:
            call()
        assert refused.value.code in (
            ErrorCode.SECURITY_DISABLED,
            ErrorCode.UNSUPPORTED_VERSION,
        )


def test_producers_of_a_partition_are_described(ours: Admin, servers: str, topic: str) -> None:
    ours.create_topic(topic)
    write(CONFLUENT, servers, topic, [Sent(value=b"x")] * 3, Sending(is_idempotent=True))
    place = TopicPartition(topic, 0)
    (producer,) = ours.describe_producers([place])[place]
    assert producer.last_sequence == 2
    assert producer.transaction_start_offset is None


def test_call_without_a_broker_times_out() -> None:
    with (
        Admin(bootstrap_servers="127.0.0.1:1") as admin,
        pytest.raises(KafkaTimeout),
    ):
        admin.list_topics(timeout=0.3)


def test_asyncio_admin_client_works_alike(servers: str, topic: str) -> None:
    async def make_and_list() -> list[str]:
        async with aio.Admin(bootstrap_servers=servers) as admin:
            await admin.create_topic(topic)
            return await admin.list_topics()

    assert topic in asyncio.run(make_and_list())

"""Headwater's consumer and admin client with Apache Kafka: both group protocols, transactions."""

import time
import uuid
from collections.abc import Callable

import confluent_kafka
import pytest

from headwater.client import (
    Acl,
    Admin,
    ConfigResource,
    Consumer,
    ConsumerRecord,
    Producer,
    TopicPartition,
)
from headwater.client.errors import GroupIdNotFound, KafkaError, TopicAlreadyExists
from headwater.common.error_codes import ErrorCode
from tests.compat.clients import Sent, write
from tests.compat.judges import CONFLUENT
from tests.peers.apache_kafka import ApacheKafka, run_class
from tests.peers.jars import KAFKA_4_1

TIMEOUT_S = 90.0
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture
def servers(apache_kafka: ApacheKafka) -> str:
    return apache_kafka.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    name = f"own-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(name, partitions=2)
    return name


def until(done: Callable[[], bool], *steps: Callable[[], object]) -> None:
    limit_s = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < limit_s, "waited in vain"
        for step in steps:
            step()


def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    until(lambda: len(records) >= count, lambda: records.extend(consumer.poll(0.2)))
    assert len(records) == count
    return records


def fill(servers: str, topic: str, count: int) -> None:
    write(CONFLUENT, servers, topic, [Sent(value=b"%d" % n, partition=n % 2) for n in range(count)])


@BOTH
def test_groups_share_partitions_commit_and_continue(
    servers: str, topic: str, protocol: str
) -> None:
    fill(servers, topic, 20)
    settings = {
        "bootstrap.servers": servers,
        "group.id": f"{topic}-{protocol}",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 100,
    }
    with Consumer(settings) as first:
        first.subscribe([topic])
        take(first, 20)
        with Consumer(settings) as second:
            second.subscribe([topic])
            until(
                lambda: len(first.assignment()) == len(second.assignment()) == 1,
                lambda: first.poll(0.05),
                lambda: second.poll(0.05),
            )
        until(lambda: len(first.assignment()) == 2, lambda: first.poll(0.05))
    fill(servers, topic, 4)
    with Consumer(settings) as again:
        again.subscribe([topic])
        assert {record.offset for record in take(again, 4)} == {10, 11}
    told = run_class(
        KAFKA_4_1,
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", servers, "--describe", "--group", f"{topic}-{protocol}"),
    )
    lags = [line.split()[5] for line in told.splitlines() if topic in line and " 12 " in line]
    assert lags == ["0", "0"]


def test_pattern_subscription_is_matched_by_kafka(servers: str, topic: str) -> None:
    with Consumer(
        bootstrap_servers=servers, group_id=f"{topic}-pattern", group_protocol="consumer"
    ) as consumer:
        consumer.subscribe(pattern=f"{topic[:-1]}.")
        until(lambda: len(consumer.assignment()) == 2, lambda: consumer.poll(0.05))


def test_aborted_records_are_only_seen_with_read_uncommitted(servers: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        if commits:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
    assert values_seen(servers, topic, "read_committed") == [b"a", b"c"]
    assert values_seen(servers, topic, "read_uncommitted") == [b"a", b"b", b"c"]


def values_seen(servers: str, topic: str, isolation_level: str) -> list[bytes | None]:
    """What a consumer sees up to offset 6, after the last marker."""
    place = TopicPartition(topic, 0)
    values: list[bytes | None] = []
    with Consumer(
        bootstrap_servers=servers, isolation_level=isolation_level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([place])
        until(
            lambda: consumer.position(place) == 6,
            lambda: values.extend(record.value for record in consumer.poll(0.2)),
        )
        assert consumer.end_offsets([place]) == {place: 6}
    return values


@BOTH
def test_consume_and_produce_are_one_transaction(servers: str, topic: str, protocol: str) -> None:
    """KIP-447: offsets are committed with the records produced from them, or not at all."""
    fill(servers, topic, 4)
    group = f"{topic}-{protocol}"
    settings = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with (
        Consumer(settings) as consumer,
        Producer(bootstrap_servers=servers, transactional_id=group) as producer,
        Admin(bootstrap_servers=servers) as admin,
    ):
        admin.create_topic(f"{topic}-out-{protocol}")
        consumer.subscribe([topic])
        records = take(consumer, 4)
        offsets = {TopicPartition(topic, number): 2 for number in range(2)}
        producer.init_transactions()
        for commits in (False, True):
            producer.begin_transaction()
            for record in records:
                producer.send(f"{topic}-out-{protocol}", record.value)
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
                assert consumer.committed(offsets) == {}
        found = consumer.committed(offsets)
        assert {place: where.offset for place, where in found.items()} == offsets
    out = TopicPartition(f"{topic}-out-{protocol}", 0)
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        reader.assign([out])
        assert sorted(record.value or b"" for record in take(reader, 4)) == [b"0", b"1", b"2", b"3"]


def test_admin_client_operations_work(servers: str, topic: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        with pytest.raises(TopicAlreadyExists):
            admin.create_topic(topic)
        resource = ConfigResource.topic(topic)
        admin.alter_configs({resource: {"retention.ms": "12345"}})
        assert admin.describe_configs([resource])[resource]["retention.ms"].value == "12345"
        admin.create_partitions({topic: 3})
        assert len(admin.describe_topics([topic])[topic].partitions) == 3
        fill(servers, topic, 6)
        place = TopicPartition(topic, 0)
        assert admin.delete_records({place: 2}) == {place: 2}
        assert admin.list_offsets({place: -2})[place].offset == 2
        admin.alter_group_offsets(f"{topic}-g", {place: 3})
        assert admin.list_group_offsets(f"{topic}-g")[place].offset == 3
        assert f"{topic}-g" in {each.group_id for each in admin.list_groups()}
        admin.delete_groups([f"{topic}-g"])
        with pytest.raises(GroupIdNotFound):
            admin.describe_groups([f"{topic}-g"])
        features = admin.describe_features()
        assert features["metadata.version"].finalized > 0
        (log_dir,) = admin.describe_log_dirs()[1]
        assert place in log_dir.replicas
        assert admin.describe_cluster().brokers[0].node_id == 1
        outcome = admin.elect_leaders([place])[place]
        assert outcome is not None
        assert outcome.code is ErrorCode.ELECTION_NOT_NEEDED
        assert admin.list_partition_reassignments() == {}
        admin.delete_topics([topic])
        until(lambda: topic not in admin.list_topics())


def test_acls_without_an_authorizer_are_rejected_with_kafkas_error(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin, pytest.raises(KafkaError) as refused:
        admin.describe_acls(Acl())
    assert refused.value.code is ErrorCode.SECURITY_DISABLED

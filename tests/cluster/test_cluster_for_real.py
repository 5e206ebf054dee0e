"""Three real brokers on KRaft or ZooKeeper, with confluent-kafka clients and failures."""

import os
import signal
import uuid
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer

from headwater.client import Admin, ConfigResource, QuotaEntity
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headwater.testing.embedded_cluster import EmbeddedCluster
from tests.cluster.back_to_back import PRODUCERS, run_transactions
from tests.cluster.cluster_clients import TIMEOUT_S, Clients, await_true, writing
from tests.cluster.topic_churn import churn, resignations
from tests.peers.raw_client import RawClient
from tests.zookeeper_server import absence

SETTINGS = {
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 4_000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "min.insync.replicas": 2,
}


KRAFT = "KRaft"
ZOOKEEPER = "ZooKeeper"


@pytest.fixture(scope="module", params=[KRAFT, pytest.param(ZOOKEEPER, marks=pytest.mark.slow)])
def running(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    settings = SETTINGS
    if request.param == ZOOKEEPER:
        reason = absence()
        if reason is not None:
            pytest.skip(reason)
        settings = {**settings, "zookeeper.session.timeout.ms": 4_000}
    with EmbeddedCluster(
        3, settings, zookeeper=request.param == ZOOKEEPER, timeout_s=TIMEOUT_S
    ) as started:
        yield started


@pytest.fixture
def cluster(running: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """The cluster with all brokers running, whatever the previous test did."""
    for broker in running.brokers:
        if not broker.is_running:
            broker.start()
    yield running
    for broker in running.brokers:
        assert "Traceback" not in broker.log_text, broker.log_text


@pytest.fixture
def clients(cluster: EmbeddedCluster) -> Clients:
    return Clients(cluster.bootstrap_servers)


def test_log_levels_are_changed_per_broker_regardless_of_the_controller(
    cluster: EmbeddedCluster,
) -> None:
    logger = "headwater.network.connection"
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for node_id in (0, 1, 2):
            admin.alter_configs({ConfigResource.loggers(node_id): {logger: "DEBUG"}})
            levels = admin.describe_configs(
                [ConfigResource.loggers(each) for each in (0, 1, 2)], names=[logger]
            )
            assert [found[logger].value for found in levels.values()] == [
                "DEBUG" if each == node_id else "INFO" for each in (0, 1, 2)
            ]
            admin.alter_configs({ConfigResource.loggers(node_id): {logger: None}})


@pytest.mark.parametrize("client", PRODUCERS)
def test_transactions_that_begin_while_markers_are_written_do_not_fail(
    clients: Clients, client: str
) -> None:
    """TX-13, TX-14: pipelined small batches to 12 partitions, and an offset in each transaction."""
    topic = clients.new_topic(partitions=12)
    failures = run_transactions(
        client, clients.servers, topic, partitions=12, transactions=25, records=60
    )
    assert failures == []
    for partition in (0, 7):
        wanted = [
            b"%d.%d" % (number, record)
            for number in range(25)
            for record in range(60)
            if (number + record) % 12 == partition
        ]
        assert clients.read(topic, partition, len(wanted)) == wanted


def test_creating_and_deleting_topics_does_not_disturb_the_controller(
    cluster: EmbeddedCluster,
) -> None:
    before = len(resignations(cluster))
    outcomes = churn(cluster.bootstrap_servers, clients=3, rounds=5)
    assert [outcome.wrong_answers for outcome in outcomes] == [[], [], []]
    assert resignations(cluster)[before:] == []


@pytest.mark.slow
def test_hundred_rounds_of_five_clients_do_not_disturb_the_controller(
    cluster: EmbeddedCluster,
) -> None:
    before = len(resignations(cluster))
    outcomes = churn(cluster.bootstrap_servers, clients=5, rounds=100)
    assert [outcome.wrong_answers for outcome in outcomes] == [[]] * 5
    assert resignations(cluster)[before:] == []


def test_acknowledged_records_are_on_all_brokers_and_a_group_reads_them(clients: Clients) -> None:
    topic = clients.new_topic(partitions=6)
    values = [b"%d" % number for number in range(300)]
    with writing(clients.servers) as producer:
        for number, value in enumerate(values):
            producer.write(topic, number % 6, value)
    assert producer.failed == []
    assert set(clients.leaders(topic).values()) == {0, 1, 2}
    consumer = Consumer(
        {
            "bootstrap.servers": clients.servers,
            "group.id": f"group-{uuid.uuid4().hex[:8]}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []

    def is_read() -> bool:
        messages = consumer.consume(300 - len(found), timeout=1)
        found.extend(bytes(each.value() or b"") for each in messages if each.error() is None)
        return len(found) == 300

    await_true(is_read)
    consumer.close()
    assert sorted(found) == sorted(values)


def test_any_broker_serves_controller_requests(cluster: EmbeddedCluster) -> None:
    for broker in cluster.brokers:
        clients = Clients(broker.bootstrap_servers)
        topic = clients.new_topic(partitions=1)
        clients.admin.delete_topics([topic])[topic].result(TIMEOUT_S)


def test_quota_applies_on_all_brokers_and_any_broker_throttles(
    cluster: EmbeddedCluster,
) -> None:
    """QU-4: the controller rejects, and the broker that forwards returns the throttle time."""
    maker = QuotaEntity(user="ANONYMOUS", client_id="maker")
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_client_quotas(
            {maker: {"controller_mutation_rate": 0.01, "request_percentage": 0.000001}}
        )
    # One broker loads it at startup, the others when it changes.
    cluster.brokers[0].restart()
    names = [f"made-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    wanted = [CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in names]
    request = CreateTopicsRequest(topics=tuple(wanted), timeout_ms=30_000)
    for broker in cluster.brokers:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await_true(partial(_has_quota, admin, maker))
        with RawClient(broker.bootstrap_servers, client_id="maker") as client:
            metadata = client.ask(MetadataRequest(topics=()), 12)
        assert isinstance(metadata, MetadataResponse)
        assert metadata.throttle_time_ms == 1_000
        with RawClient(broker.bootstrap_servers, client_id="maker") as client:
            answer = client.ask(request, 7)
        assert isinstance(answer, CreateTopicsResponse)
        codes = [each.error_code for each in answer.topics]
        assert ErrorCode.THROTTLING_QUOTA_EXCEEDED in codes
        assert answer.throttle_time_ms > 10_000
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_client_quotas(
            {maker: {"controller_mutation_rate": None, "request_percentage": None}}
        )


def _has_quota(admin: Admin, entity: QuotaEntity) -> bool:
    return entity in admin.describe_client_quotas()


def test_killed_leader_is_replaced_and_no_acknowledged_record_is_lost(
    cluster: EmbeddedCluster, clients: Clients
) -> None:
    topic = clients.new_topic(partitions=1)
    leader = clients.leaders(topic)[0]
    with writing(clients.servers) as producer:
        for number in range(200):
            producer.write(topic, 0, b"before %d" % number)
        producer.flush()
        cluster.brokers[leader].kill()
        for number in range(200):
            producer.write(topic, 0, b"after %d" % number)
    assert producer.failed == []
    acknowledged = producer.acknowledged[0]
    assert len(acknowledged) == 400
    assert clients.read(topic, 0, 400) == acknowledged
    await_true(lambda: clients.leaders(topic).get(0, leader) != leader)
    # It returns as a follower, and rejoins the ISR when it has caught up.
    cluster.brokers[leader].start()
    await_true(lambda: clients.in_sync(topic) == {0: [0, 1, 2]})


def test_stopped_broker_moves_its_leaderships_without_errors(
    cluster: EmbeddedCluster, clients: Clients
) -> None:
    topic = clients.new_topic(partitions=3)
    leader = clients.leaders(topic)[0]
    with writing(clients.servers) as producer:
        for number in range(100):
            producer.write(topic, number % 3, b"before %d" % number)
        cluster.brokers[leader].stop()
        for number in range(100):
            producer.write(topic, number % 3, b"after %d" % number)
    assert producer.failed == []
    await_true(lambda: leader not in clients.leaders(topic).values())
    assert "has not relieved it" not in cluster.brokers[leader].log_text
    for partition in range(3):
        acknowledged = producer.acknowledged[partition]
        assert clients.read(topic, partition, len(acknowledged)) == acknowledged


def test_leader_paused_for_longer_than_its_session_is_replaced_and_follows(
    cluster: EmbeddedCluster, clients: Clients
) -> None:
    topic = clients.new_topic(partitions=3)
    sleeper = clients.leaders(topic)[0]
    with writing(clients.servers) as producer:
        for number in range(90):
            producer.write(topic, number % 3, b"before %d" % number)
        producer.flush()
        os.kill(cluster.brokers[sleeper].pid, signal.SIGSTOP)
        try:
            for number in range(90):
                producer.write(topic, number % 3, b"after %d" % number)
            # These are acknowledged by the others, once they know that they lead.
            producer.flush()
        finally:
            os.kill(cluster.brokers[sleeper].pid, signal.SIGCONT)
    assert producer.failed == []
    # The paused broker itself may answer, and then it does not know the new leader yet.
    await_true(lambda: clients.leaders(topic).get(0, sleeper) != sleeper)
    await_true(lambda: clients.in_sync(topic) == {number: [0, 1, 2] for number in range(3)})
    for partition in range(3):
        acknowledged = producer.acknowledged[partition]
        assert clients.read(topic, partition, len(acknowledged)) == acknowledged

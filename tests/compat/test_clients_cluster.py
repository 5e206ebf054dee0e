"""The cluster as other admin clients see it, and their changes to brokers."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition

from headwater.common.error_codes import ErrorCode
from headwater.testing import EmbeddedBroker
from tests.cluster.cluster_clients import await_true
from tests.compat.admins import ADMINS
from tests.compat.brokers import checked_broker
from tests.compat.clients import TIMEOUT_S, Client, Sending, Sent, read, write
from tests.compat.foreign import load
from tests.compat.judges import CONFLUENT, refusal_of
from tests.compat.topics import admin_of, create_topic

confluent_admin = load("confluent_kafka.admin")
OFFSET = confluent_admin.OffsetSpec
kafka = load("kafka")
kafka_admin = load("kafka.admin")


def test_all_clients_see_the_same_cluster(servers: str) -> None:
    seen = set()
    for kind in ADMINS:
        with closing(kind(servers)) as admin:
            seen.add(admin.cluster())
    ((cluster_id, addresses),) = seen
    assert cluster_id
    assert addresses == (servers,)


def test_admin_clients_list_offsets(servers: str, topic: str) -> None:
    times_ms = [1_000, 3_000, 2_000]
    write(CONFLUENT, servers, topic, [Sent(value=b"v", timestamp_ms=each) for each in times_ms])
    place = TopicPartition(topic, 0)
    admin = admin_of(servers)

    def listed(spec: Any) -> tuple[int, int]:
        found: Any = admin.list_offsets({place: spec})[place].result(TIMEOUT_S)
        return found.offset, found.timestamp

    assert listed(OFFSET.earliest()) == (0, -1)
    assert listed(OFFSET.latest()) == (3, -1)
    assert listed(OFFSET.max_timestamp()) == (1, 3_000)
    assert listed(OFFSET.for_timestamp(1_500)) == (1, 3_000)


def test_preferred_leader_stays(servers: str, topic: str) -> None:
    """PL-1."""
    create_topic(servers, topic)
    place = TopicPartition(topic, 0)
    admin = admin_of(servers)
    (error,) = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(TIMEOUT_S).values()
    assert error.code() == KafkaError.ELECTION_NOT_NEEDED


def test_log_directories_are_described_with_partition_sizes(
    shared_broker: EmbeddedBroker, servers: str, topic: str
) -> None:
    write(CONFLUENT, servers, topic, [Sent(value=bytes(100_000))])
    with closing(kafka_admin.KafkaAdminClient(bootstrap_servers=servers)) as admin:
        (broker,) = admin.describe_log_dirs({topic: [0]})
    (directory,) = broker["log_dirs"]
    assert directory["log_dir"] == str(shared_broker.data_directory)
    (segment,) = shared_broker.data_directory.glob(f"{topic}-0/*.log")
    ((partition,),) = [each["partitions"] for each in directory["topics"]]
    assert partition["partition_size"] == segment.stat().st_size


def test_partition_is_moved_to_another_log_directory(tmp_path: Path, topic: str) -> None:
    paths = [str(tmp_path / each) for each in ("one", "two")]
    with checked_broker({"log.dirs": ",".join(paths)}) as broker:
        servers = broker.bootstrap_servers
        write(CONFLUENT, servers, topic, [Sent(value=b"%d" % number) for number in range(100)])
        with closing(kafka_admin.KafkaAdminClient(bootstrap_servers=servers)) as admin:

            def places() -> list[tuple[str, bool]]:
                (found,) = admin.describe_log_dirs({topic: [0]})
                return [
                    (directory["log_dir"], partition["is_future_key"])
                    for directory in found["log_dirs"]
                    for each in directory["topics"]
                    for partition in each["partitions"]
                ]

            ((home, _),) = places()
            (target,) = [each for each in paths if each != home]
            (error,) = admin.alter_replica_log_dirs({(topic, 0, 0): target}).values()
            assert error.errno == ErrorCode.NONE
            await_true(lambda: places() == [(target, False)])
            (error,) = admin.alter_replica_log_dirs({(topic, 0, 0): "/nowhere"}).values()
            assert error.errno == ErrorCode.LOG_DIR_NOT_FOUND
        found = read(CONFLUENT, servers, topic, 100)
    assert [each.value for each in found] == [b"%d" % number for number in range(100)]


def test_active_producers_are_described(servers: str, topic: str) -> None:
    """IDP-1."""
    sent = [Sent(value=b"v")] * 3
    write(CONFLUENT, servers, topic, sent, Sending(is_idempotent=True))
    place = kafka.TopicPartition(topic, 0)
    with closing(kafka_admin.KafkaAdminClient(bootstrap_servers=servers)) as admin:
        (producer,) = admin.describe_producers([place])[place].active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, 2)


def test_no_reassignments_are_listed(servers: str) -> None:
    with closing(kafka_admin.KafkaAdminClient(bootstrap_servers=servers)) as admin:
        assert admin.list_partition_reassignments() == {}


@pytest.fixture(scope="module")
def own_broker() -> Iterator[EmbeddedBroker]:
    """A separate broker for tests that change a broker's settings."""
    with checked_broker() as broker:
        yield broker


def test_broker_config_applies_to_its_topics_at_once(
    own_broker: EmbeddedBroker, topic: str, client: Client
) -> None:
    """CF-1."""
    servers = own_broker.bootstrap_servers
    create_topic(servers, topic)
    with closing(client.producer(servers, Sending(largest_bytes=900_000))) as producer:
        alter_broker(servers, confluent_admin.AlterConfigOpType.SET)
        producer.send(topic, Sent(value=bytes(50_000)))
        assert refusal_of(producer.finish) == ErrorCode.MESSAGE_TOO_LARGE
        alter_broker(servers, confluent_admin.AlterConfigOpType.DELETE)
        producer.send(topic, Sent(value=bytes(50_000)))
        assert producer.finish() == [(0, 0)]


def alter_broker(servers: str, operation: object) -> None:
    entry = confluent_admin.ConfigEntry(
        "message.max.bytes", "20000", incremental_operation=operation
    )
    resource = confluent_admin.ConfigResource(
        confluent_admin.ResourceType.BROKER, "0", incremental_configs=[entry]
    )
    admin = admin_of(servers)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

"""Other admin clients and configs: described, altered, rejected, and applied at once."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.records.batch_header import Codec, codec_of, read_header
from headwater.testing import EmbeddedBroker
from tests.compat.admins import ADMINS, ConfluentAdmin, OpenAdmin
from tests.compat.brokers import checked_broker
from tests.compat.clients import (
    Client,
    Deadline,
    Reading,
    Received,
    Sending,
    Sent,
    read,
    take,
    write,
)
from tests.compat.judges import CONFLUENT, refusal_of
from tests.compat.topics import create_topic

MIB = 1 << 20
# Retention and compaction run many times per second, and files are deleted at once.
IN_A_HURRY = {
    "log.retention.check.interval.ms": 100,
    "log.initial.task.delay.ms": 0,
    "log.cleaner.backoff.ms": 100,
    "log.segment.delete.delay.ms": 0,
}


@pytest.fixture(scope="module")
def hasty_broker() -> Iterator[EmbeddedBroker]:
    with checked_broker(IN_A_HURRY) as broker:
        yield broker


def beginning(broker: EmbeddedBroker, topic: str) -> int:
    with closing(CONFLUENT.consumer(broker.bootstrap_servers, Reading())) as consumer:
        return consumer.bounds(topic, 0)[0]


def segment_count(broker: EmbeddedBroker, topic: str) -> int:
    return len(list(broker.data_directory.glob(f"{topic}-0/*.log")))


def test_configs_are_described_with_set_values_and_defaults(topic: str, admin: OpenAdmin) -> None:
    admin.create([topic], config={"retention.ms": "12345", "cleanup.policy": "compact"})
    found = admin.config_of(topic)
    assert found["retention.ms"] == "12345"
    assert found["cleanup.policy"] == "compact"
    assert found["max.message.bytes"] == "1048588"
    assert found["min.insync.replicas"] == "1"


def test_broker_describes_its_configs(admin: OpenAdmin) -> None:
    found = admin.broker_config(0)
    assert found["num.partitions"] == "1"
    assert found["auto.create.topics.enable"] == "true"


def test_altered_config_is_described_by_every_client(
    servers: str, topic: str, admin: OpenAdmin
) -> None:
    admin.create([topic])
    admin.configure(topic, {"retention.ms": "777", "segment.bytes": str(2 * MIB)})
    for kind in ADMINS:
        with closing(kind(servers)) as other:
            found = other.config_of(topic)
            assert (found["retention.ms"], found["segment.bytes"]) == ("777", str(2 * MIB))


@pytest.mark.parametrize(
    "config", [{"retention.ms": "soon"}, {"segment.bytes": "-1"}, {"cleanup.policy": "burn"}]
)
def test_invalid_value_is_rejected_and_nothing_changes(
    topic: str, admin: OpenAdmin, config: dict[str, str]
) -> None:
    """CF-1."""
    admin.create([topic])
    before = admin.config_of(topic)
    assert refusal_of(lambda: admin.configure(topic, config)) == ErrorCode.INVALID_CONFIG
    assert admin.config_of(topic) == before


def test_lower_max_message_bytes_rejects_the_next_large_record(
    servers: str, topic: str, client: Client
) -> None:
    """CF-1: without a metadata refresh of the producer."""
    create_topic(servers, topic)
    with (
        closing(client.producer(servers, Sending())) as producer,
        closing(ConfluentAdmin(servers)) as admin,
    ):
        producer.send(topic, Sent(value=bytes(20_000)))
        assert producer.finish() == [(0, 0)]
        admin.configure(topic, {"max.message.bytes": "10000"})
        producer.send(topic, Sent(value=bytes(20_000)))
        assert refusal_of(producer.finish) == ErrorCode.MESSAGE_TOO_LARGE
        producer.send(topic, Sent(value=bytes(5_000)))
        assert producer.finish() == [(0, 1)]


def test_timestamps_too_old_or_too_new_are_rejected(
    servers: str, topic: str, client: Client
) -> None:
    """PV-3."""
    limits = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}
    create_topic(servers, topic, limits)
    now_ms = int(time.time() * 1_000)
    for timestamp_ms in (now_ms - 600_000, now_ms + 600_000):
        sent = [Sent(value=b"v", timestamp_ms=timestamp_ms)]
        code = refusal_of(lambda sent=sent: write(client, servers, topic, sent))  # type: ignore[misc]
        assert code == ErrorCode.INVALID_TIMESTAMP
    assert write(client, servers, topic, [Sent(value=b"v", timestamp_ms=now_ms)]) == [(0, 0)]


def test_timestamp_type_can_be_changed_for_later_records(
    servers: str, topic: str, client: Client
) -> None:
    create_topic(servers, topic)
    write(client, servers, topic, [Sent(value=b"1", timestamp_ms=1_000)])
    with closing(ConfluentAdmin(servers)) as admin:
        admin.configure(topic, {"message.timestamp.type": "LogAppendTime"})
    write(client, servers, topic, [Sent(value=b"2", timestamp_ms=1_000)])
    first, second = read(client, servers, topic, 2)
    assert (first.timestamp_ms, first.is_append_time) == (1_000, False)
    assert second.timestamp_ms > 1_000
    assert second.is_append_time


@pytest.mark.parametrize(
    ("wanted", "codec"), [("gzip", Codec.GZIP), ("zstd", Codec.ZSTD), ("uncompressed", Codec.NONE)]
)
def test_topic_has_its_own_compression(
    shared_broker: EmbeddedBroker, servers: str, topic: str, wanted: str, codec: Codec
) -> None:
    """PV-5, whatever the producer chose."""
    create_topic(servers, topic, {"compression.type": wanted})
    sent = [Sent(key=b"k", value=b"water " * 100)] * 10
    write(CONFLUENT, servers, topic, sent, Sending(codec="lz4", linger_ms=20))
    received = read(CONFLUENT, servers, topic, 10)
    assert [each.value for each in received] == [each.value for each in sent]
    (segment,) = shared_broker.data_directory.glob(f"{topic}-0/*.log")
    assert codec_of(read_header(segment.read_bytes()).attributes) is codec


def test_min_insync_replicas_above_the_replication_factor_does_not_reject(
    servers: str, topic: str, client: Client
) -> None:
    """MIN-1: the effective value is the lower of min.insync.replicas and the replication factor."""
    create_topic(servers, topic, {"min.insync.replicas": "2"})
    assert write(client, servers, topic, [Sent(value=b"v")], Sending(acks=-1)) == [(0, 0)]


def test_old_records_are_deleted_when_retention_is_lowered(
    hasty_broker: EmbeddedBroker, topic: str
) -> None:
    """RT-2, RT-4."""
    servers = hasty_broker.bootstrap_servers
    create_topic(servers, topic)
    old_ms = int(time.time() * 1_000) - 3_600_000
    write(CONFLUENT, servers, topic, [Sent(value=b"v", timestamp_ms=old_ms)] * 5)
    assert beginning(hasty_broker, topic) == 0
    with closing(ConfluentAdmin(servers)) as admin:
        admin.configure(topic, {"retention.ms": "60000"})
    deadline = Deadline("the end of old records")
    while beginning(hasty_broker, topic) < 5:
        deadline.check()
    assert write(CONFLUENT, servers, topic, [Sent(value=b"v")]) == [(0, 5)]


def test_log_above_retention_bytes_loses_its_oldest_segments(
    hasty_broker: EmbeddedBroker, topic: str
) -> None:
    """RT-3, RL-1."""
    servers = hasty_broker.bootstrap_servers
    create_topic(servers, topic, {"segment.bytes": str(MIB)})
    for _ in range(8):
        write(CONFLUENT, servers, topic, [Sent(value=bytes(500_000))])
    assert segment_count(hasty_broker, topic) == 4
    with closing(ConfluentAdmin(servers)) as admin:
        admin.configure(topic, {"retention.bytes": "2000000"})
    deadline = Deadline("the end of old segments")
    while beginning(hasty_broker, topic) < 4:
        deadline.check()
    assert [each.offset for each in read_from_beginning(servers, topic, 4)] == [4, 5, 6, 7]


def test_compaction_keeps_the_newest_value_of_each_key(
    hasty_broker: EmbeddedBroker, topic: str
) -> None:
    """Below the active segment, which has the last record. Offsets stay."""
    servers = hasty_broker.bootstrap_servers
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "1",
        "min.cleanable.dirty.ratio": "0.0",
    }
    create_topic(servers, topic, config)
    now_ms = int(time.time() * 1_000)
    for number in range(20):
        record = Sent(
            key=b"key %d" % (number % 4), value=b"%d" % number, timestamp_ms=now_ms + 10 * number
        )
        write(CONFLUENT, servers, topic, [record])
    expected = [b"15", b"16", b"17", b"18", b"19"]
    deadline = Deadline("compaction")
    while (values := whole_log(servers, topic, end=20)) != expected:
        deadline.check(values)
    received = read_from_beginning(servers, topic, 5)
    assert [each.offset for each in received] == [15, 16, 17, 18, 19]


def test_compacted_topic_rejects_records_without_a_key(
    servers: str, topic: str, client: Client
) -> None:
    """CP-8, as soon as the policy is changed."""
    create_topic(servers, topic)
    write(client, servers, topic, [Sent(value=b"v")])
    with closing(ConfluentAdmin(servers)) as admin:
        admin.configure(topic, {"cleanup.policy": "compact"})
    code = refusal_of(lambda: write(client, servers, topic, [Sent(value=b"v")]))
    # aiokafka does not know this error.
    assert code == (None if client.name == "aiokafka" else ErrorCode.INVALID_RECORD)
    assert write(client, servers, topic, [Sent(key=b"k", value=b"v")]) == [(0, 1)]


def read_from_beginning(servers: str, topic: str, count: int) -> list[Received]:
    with closing(CONFLUENT.consumer(servers, Reading(reset="earliest"))) as consumer:
        consumer.assign(topic, {0: 0})
        return take(consumer, count)


def whole_log(servers: str, topic: str, *, end: int) -> list[bytes | None]:
    """Return all values up to an offset; the record before it is never compacted."""
    with closing(CONFLUENT.consumer(servers, Reading(reset="earliest"))) as consumer:
        consumer.assign(topic, {0: 0})
        received: list[Received] = []
        deadline = Deadline("the last record")
        while not received or received[-1].offset < end - 1:
            deadline.check()
            received += consumer.poll(0.2)
        return [each.value for each in received]

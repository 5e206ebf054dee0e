"""MirrorMaker 2 from one broker to a cluster of three, while a process and a broker are killed.

It runs in dedicated mode, two processes with exactly-once support.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.connect_worker import TASK_FAILED
from tests.peers.exactly_once import (
    TIMEOUT_S,
    AcknowledgedProducer,
    CommittedReader,
    Feed,
    create_topic,
    leader_of,
)
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.jars import KAFKA_CONNECT
from tests.peers.java_process import JavaProcess
from tests.peers.processes import free_port
from tests.peers.three_brokers import HEADWATER, SYSTEMS, three_brokers

TOPIC = "orders"
COPY = f"source.{TOPIC}"
GROUP = "readers"
PARTITIONS = 3
PLACES = range(PARTITIONS)
PROGRESS = 1_000
SETTINGS = {
    "clusters": "source,target",
    "source->target.enabled": "true",
    "source->target.topics": TOPIC,
    "source->target.groups": GROUP,
    "target->source.enabled": "false",
    "target->source.emit.heartbeats.enabled": "false",
    "tasks.max": "3",
    "replication.factor": "3",
    # The source has one broker.
    "offset-syncs.topic.replication.factor": "1",
    "offset.lag.max": "0",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "dedicated.mode.enable.internal.rest": "true",
    "target.exactly.once.source.support": "enabled",
    "target.offset.flush.interval.ms": "500",
    "target.session.timeout.ms": "6000",
    "target.heartbeat.interval.ms": "1000",
    "target.scheduled.rebalance.max.delay.ms": "0",
    "target.plugin.discovery": "service_load",
}

pytestmark = [
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(KAFKA_CONNECT.absence() is not None, reason=str(KAFKA_CONNECT.absence())),
]


@pytest.fixture(params=SYSTEMS)
def source(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The name of a system, and a broker of it."""
    folder = tmp_path_factory.mktemp("source")
    broker = HeadwaterBroker(folder) if request.param == HEADWATER else ApacheKafka(folder)
    with broker:
        yield request.param, broker.bootstrap_servers


def mirror_maker(source: str, target: str, folder: Path, name: str) -> JavaProcess:
    settings = {
        **SETTINGS,
        "source.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    properties = folder / f"{name}.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return JavaProcess(
        KAFKA_CONNECT,
        ("org.apache.kafka.connect.mirror.MirrorMaker", str(properties)),
        folder / f"{name}.log",
        is_ready=lambda line: "Kafka MirrorMaker started" in line,
        fatal=TASK_FAILED,
        level="info",
    )


def test_records_and_group_offsets_arrive_while_a_process_and_a_broker_are_killed(
    source: tuple[str, str], tmp_path: Path
) -> None:
    system, origin = source
    create_topic(origin, TOPIC, PARTITIONS, replicas=1)
    # MirrorMaker looks for groups when it starts, and then every ten minutes.
    commit(origin, 0)
    producer = AcknowledgedProducer(origin)

    def write(number: int) -> None:
        place = number % PARTITIONS
        producer.send(TOPIC, key=b"key-%d" % place, value=b"%d" % number, partition=place)

    with three_brokers(system, tmp_path / "cluster") as cluster:
        target = cluster.bootstrap_servers
        # As MirrorMaker would create it, so that the reader below may begin before it.
        create_topic(target, COPY, PARTITIONS)
        with (
            Feed(write, per_pause=10) as feed,
            mirror_maker(origin, target, tmp_path, "one") as one,
            mirror_maker(origin, target, tmp_path, "two") as two,
            CommittedReader(target, COPY, PARTITIONS, writers=(one, two)) as reader,
        ):
            reader.read_more(PROGRESS)
            half = commit(origin, feed.written // 2)
            translated = await_group_offsets(target, lambda found: min(found) > 0, two)
            one.kill()
            reader.read_more(PROGRESS)
            broker = cluster.brokers[leader_of(target, COPY, 0)]
            broker.kill()
            reader.read_more(PROGRESS)
            one.start()
            broker.start()
            reader.read_more(PROGRESS)
            total = feed.stop()
            producer.flush()
            reader.read_until(lambda: len(reader.messages) >= total)
            commit(origin, total)
            ends = [offsets[-1] + 1 for offsets in offsets_of(reader.messages)]
            await_group_offsets(target, lambda found: found == ends, two)
            reader.read_to_end()
    with CommittedReader(origin, TOPIC, PARTITIONS) as original:
        original.read_until(lambda: len(original.messages) >= total)
    assert contents(reader.messages) == contents(original.messages)
    # A consumer that moves to the copy may read some records again, and must not miss one.
    copies = offsets_of(reader.messages)
    done = [bisect_left(offsets, at) for offsets, at in zip(copies, translated, strict=True)]
    assert all(0 < count <= limit for count, limit in zip(done, half, strict=True)), (done, half)


def commit(servers: str, upto: int) -> list[int]:
    """Commit an offset for the group in the source."""
    offsets = [len(range(place, upto, PARTITIONS)) for place in PLACES]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    places = [TopicPartition(TOPIC, place, offset) for place, offset in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    return offsets


def await_group_offsets(
    servers: str, is_enough: Callable[[list[int]], bool], writer: JavaProcess
) -> list[int]:
    """The group's offsets in the target, once they are synced far enough."""
    admin = AdminClient({"bootstrap.servers": servers})
    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(COPY, place) for place in PLACES])
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        answer = admin.list_consumer_group_offsets([asked])[GROUP].result(TIMEOUT_S)
        found = [place.offset for place in answer.topic_partitions]
        if is_enough(found):
            return found
        assert time.monotonic() < until_s, f"offsets {found}\n{writer.logged_errors()}"


def by_partition(messages: Sequence[Message]) -> list[list[Message]]:
    return [[each for each in messages if each.partition() == place] for place in PLACES]


def offsets_of(messages: Sequence[Message]) -> list[list[int]]:
    return [[each.offset() or 0 for each in partition] for partition in by_partition(messages)]


def contents(messages: Sequence[Message]) -> list[list[tuple[object, ...]]]:
    """What must be equal in the source and the copy, in partition order."""
    return [
        [(each.key(), each.value(), each.timestamp(), each.headers()) for each in partition]
        for partition in by_partition(messages)
    ]

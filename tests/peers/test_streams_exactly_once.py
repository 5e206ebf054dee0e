"""Kafka Streams with `exactly_once_v2`, while an instance and a broker are killed."""

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from tests.peers.exactly_once import (
    AcknowledgedProducer,
    CommittedReader,
    Feed,
    create_topic,
    leader_of,
)
from tests.peers.jars import KAFKA_STREAMS
from tests.peers.java_process import JavaProcess
from tests.peers.three_brokers import SYSTEMS, three_brokers

PROGRAM = Path(__file__).parent / "java" / "RunningCounts.java"
PARTITIONS = 6
WORDS = 23
# Between two faults: several commits of every task.
PROGRESS = 2_000
SETTINGS = (
    "num.stream.threads=2",
    "commit.interval.ms=20",
    # Half of the partitions stand still until an instance that died is missed.
    "consumer.session.timeout.ms=6000",
    "consumer.heartbeat.interval.ms=1000",
)

pytestmark = [
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(KAFKA_STREAMS.absence() is not None, reason=str(KAFKA_STREAMS.absence())),
    pytest.mark.skipif(shutil.which("javac") is None, reason="there is only a JRE, and no JDK"),
]


def instance(servers: str, folder: Path, name: str) -> JavaProcess:
    state_dir = str(folder / f"state-{name}")
    return JavaProcess(
        KAFKA_STREAMS,
        (str(PROGRAM), servers, "words", "counts", state_dir, *SETTINGS),
        folder / f"{name}.log",
        is_ready=lambda line: "state RUNNING" in line,
        # A thread that dies of an error takes its instance with it.
        fatal="state (PENDING_)?ERROR",
    )


def word(number: int) -> bytes:
    return b"word-%d" % (number % WORDS)


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_record_is_counted_once_while_an_instance_and_a_broker_are_killed(
    tmp_path: Path, system: str
) -> None:
    with three_brokers(system, tmp_path / "cluster") as cluster:
        servers = cluster.bootstrap_servers
        for topic in ("words", "counts"):
            create_topic(servers, topic, PARTITIONS)
        producer = AcknowledgedProducer(servers)

        def write(number: int) -> None:
            producer.send("words", value=word(number), partition=number % PARTITIONS)

        with (
            Feed(write, per_pause=25) as feed,
            instance(servers, tmp_path, "one") as one,
            instance(servers, tmp_path, "two") as two,
            CommittedReader(servers, "counts", PARTITIONS, writers=(one, two)) as reader,
        ):
            reader.read_more(PROGRESS)
            one.kill()
            reader.read_more(PROGRESS)
            broker = cluster.brokers[leader_of(servers, "counts", 0)]
            broker.kill()
            reader.read_more(PROGRESS)
            one.start()
            broker.start()
            reader.read_more(PROGRESS)
            total = feed.stop()
            producer.flush()
            reader.read_until(lambda: len(reader.messages) >= total)
            reader.read_to_end()
        counts: dict[bytes, list[int]] = defaultdict(list)
        for message in reader.messages:
            counts[message.key() or b""].append(int(message.value() or b""))
        expected: dict[bytes, list[int]] = defaultdict(list)
        for number in range(total):
            expected[word(number)].append(len(expected[word(number)]) + 1)
        assert counts == expected

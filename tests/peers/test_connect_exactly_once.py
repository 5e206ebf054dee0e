"""Kafka Connect with exactly-once sources, while a worker and a broker are killed."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.peers.connect_worker import ConnectWorker, TaskStatus
from tests.peers.exactly_once import TIMEOUT_S, CommittedReader, Feed, create_topic, leader_of
from tests.peers.jars import KAFKA_CONNECT
from tests.peers.three_brokers import SYSTEMS, three_brokers

PARTITIONS = 6
CONNECTORS = 3
# Between two faults: some dozen transactions.
PROGRESS = 500

pytestmark = [
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(KAFKA_CONNECT.absence() is not None, reason=str(KAFKA_CONNECT.absence())),
]


def config(file: Path) -> dict[str, str]:
    """A source that commits a transaction over several partitions with every poll."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": "lines",
        "batch.size": "20",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        # A partition each for a few lines. A partitioner that ignores keys would do the same to
        # the offsets of the source, which must all go to one partition.
        "producer.override.batch.size": "64",
        "producer.override.linger.ms": "0",
    }


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_line_arrives_once_while_a_worker_and_a_broker_are_killed(
    tmp_path: Path, system: str
) -> None:
    files = [tmp_path / f"source-{number}" for number in range(CONNECTORS)]
    # More than is read between the faults, since a source that has reached the end waits a second.
    for number, file in enumerate(files):
        file.write_text("".join(f"{number} early {at}\n" for at in range(2 * PROGRESS)))
    opened = [file.open("a", buffering=1) for file in files]

    def write(number: int) -> None:
        opened[number % CONNECTORS].write(f"{number % CONNECTORS} late {number}\n")

    with three_brokers(system, tmp_path / "cluster") as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, "lines", PARTITIONS)
        with (
            Feed(write, per_pause=3) as feed,
            ConnectWorker(servers, tmp_path, "one") as one,
            ConnectWorker(servers, tmp_path, "two") as two,
            CommittedReader(servers, "lines", PARTITIONS, writers=(one, two)) as reader,
        ):
            for number, file in enumerate(files):
                one.put_connector(f"source-{number}", config(file))
            await_tasks_on(one, one)
            reader.read_more(PROGRESS)
            one.kill()
            reader.read_more(PROGRESS)
            broker = cluster.brokers[leader_of(servers, "lines", 0)]
            broker.kill()
            reader.read_more(PROGRESS)
            one.start()
            broker.start()
            reader.read_more(PROGRESS)
            wanted = set(all_lines(files))
            # The source keeps the last lines of a file back until there are more of them, so the
            # feed goes on until all that were written before this line have arrived.
            reader.read_until(lambda: wanted.issubset(reader.values))
            feed.stop()
            reader.read_to_end()
            states = [task.state for task in all_tasks(two)]
        for stream in opened:
            stream.close()
        assert [value for value, count in Counter(reader.values).items() if count > 1] == []
        assert set(reader.values) - set(all_lines(files)) == set()
        assert states == ["RUNNING"] * CONNECTORS


def all_lines(files: Sequence[Path]) -> list[bytes]:
    return [line for file in files for line in file.read_bytes().splitlines()]


def all_tasks(worker: ConnectWorker) -> list[TaskStatus]:
    return [task for number in range(CONNECTORS) for task in worker.tasks(f"source-{number}")]


def await_tasks_on(asked: ConnectWorker, victim: ConnectWorker) -> None:
    """Wait until all tasks run, at least one of them on the worker that is about to be killed."""
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        tasks = all_tasks(asked)
        is_complete = [task.state for task in tasks] == ["RUNNING"] * CONNECTORS
        if is_complete and victim.address in {task.worker for task in tasks}:
            return
        asked.check()
        assert time.monotonic() < until_s, task_errors(asked)


def task_errors(worker: ConnectWorker) -> str:
    """Why tasks do not run, as far as Connect reports it."""
    tasks = "\n".join(f"{task.state} on {task.worker}: {task.trace}" for task in all_tasks(worker))
    return f"{tasks}\n{worker.logged_errors()}"

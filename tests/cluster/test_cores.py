"""`headwater start --cores 2`, as a user runs it, with a foreign client."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.cluster_clients import TIMEOUT_S, await_true
from tests.cluster.test_cluster_command import HEADWATER, is_there

RECORDS = 200


class Cores:
    """The supervisor with its output so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log = ""
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.ready_line = process.stdout.readline()
        assert self.ready_line.startswith("headwater ready on "), self.log

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line

    @property
    def bootstrap(self) -> str:
        return ",".join(re.findall(r"127\.0\.0\.1:\d+", self.ready_line))

    def pids(self, broker: int) -> list[int]:
        """All processes of a broker so far."""
        return [
            int(pid) for pid in re.findall(rf"Started: process=broker-{broker} pid=(\d+)", self.log)
        ]

    def join(self) -> None:
        self._reader.join(TIMEOUT_S)


@contextmanager
def cores(directory: Path, *options: str) -> Iterator[Cores]:
    command = [*HEADWATER, "start", "--cores", "2", "--listen", "127.0.0.1:0"]
    command += ["--data", str(directory), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        running = Cores(process)
        try:
            yield running
        finally:
            process.kill()
            process.wait()
            running.join()


def produce(bootstrap: str, topic: str, first: int) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for number in range(first, first + RECORDS):
        producer.produce(topic, value=str(number), on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == []
    return producer


def consumed(consumer: Consumer, count: int) -> list[int]:
    values: list[int] = []
    while len(values) < count:
        for message in consumer.consume(count - len(values), TIMEOUT_S):
            assert message.error() is None, message.error()
            value = message.value()
            assert value is not None
            values.append(int(value))
    return sorted(values)


@pytest.mark.slow
def test_killed_broker_is_restarted_and_clients_see_a_failover(tmp_path: Path) -> None:
    with cores(tmp_path) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topic = NewTopic("orders", 4, 2)
        admin.create_topics([topic])["orders"].result(TIMEOUT_S)
        consumer = Consumer(
            {
                "bootstrap.servers": running.bootstrap,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["orders"])
        produce(running.bootstrap, "orders", 0)
        assert consumed(consumer, RECORDS) == list(range(RECORDS))
        (killed,) = running.pids(1)
        os.kill(killed, signal.SIGKILL)
        produce(running.bootstrap, "orders", RECORDS)
        assert consumed(consumer, RECORDS) == list(range(RECORDS, 2 * RECORDS))
        await_true(lambda: "Ready again: process=broker-1" in running.log)
        await_true(lambda: len(admin.list_topics(timeout=TIMEOUT_S).brokers) == 2)
        consumer.close()
        assert f"process=broker-1 pid={killed} exit_code=-9" in running.log
        assert "[broker-0] " in running.log
        assert "Traceback" not in running.log
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(TIMEOUT_S) == 0
        running.join()
        pids = [*running.pids(0), *running.pids(1)]
        assert len(pids) == 3
        assert not any(map(is_there, pids))
    refused = [*HEADWATER, "start", "--cores", "1", "--data", str(tmp_path)]
    result = subprocess.run(refused, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 2
    assert "has the data of brokers 0, 1, and --cores 1 would start only 0" in result.stderr


def test_one_broker_that_cannot_start_ends_all_and_a_killed_supervisor_leaves_none(
    tmp_path: Path,
) -> None:
    with cores(tmp_path / "first") as running:
        address = running.bootstrap.split(",")[0]
        command = [*HEADWATER, "start", "--cores", "2", "--listen", address]
        command += ["--data", str(tmp_path / "second")]
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert result.returncode == 2
        assert f"[broker-0] headwater: cannot listen on PLAINTEXT://{address}" in result.stderr
        refused = re.findall(r"Started: .* pid=(\d+)", result.stderr)
        assert len(refused) == 2
        pids = [*running.pids(0), *running.pids(1)]
        assert len(pids) == 2
        running.process.kill()
        running.process.wait(TIMEOUT_S)
        await_true(lambda: not any(map(is_there, [*pids, *map(int, refused)])))


@pytest.mark.slow
def test_restarted_cores_keep_their_data_and_grow(tmp_path: Path) -> None:
    with cores(tmp_path) as running:
        produce(running.bootstrap, "orders", 0)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(TIMEOUT_S) == 0
    with cores(tmp_path, "--cores", "3") as running:
        assert running.ready_line.count("127.0.0.1:") == 3
        consumer = Consumer(
            {
                "bootstrap.servers": running.bootstrap,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["orders"])
        assert consumed(consumer, RECORDS) == list(range(RECORDS))
        consumer.close()

"""Intervals of offsets for schedulers: the same one again until it has succeeded."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.client import (
    Consumer,
    OffsetAndMetadata,
    OffsetIntervals,
    Producer,
    TopicPartition,
)
from headwater.client.errors import OffsetOutOfRange
from headwater.client.offset_intervals import is_done, pending, planned
from headwater.testing import EmbeddedBroker

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
JOB = """\
import sys
from pathlib import Path
from headwater.client import OffsetIntervals
servers, topic, run_id, folder, dies = sys.argv[1:]
intervals = OffsetIntervals({"bootstrap.servers": servers}, group_id=topic, topics=[topic])
with intervals.claim(run_id) as interval:
    if interval:
        texts = [record.value.decode() for record in interval.records()]
        (Path(folder) / interval.name).write_text(" ".join(texts))
        print("written", flush=True)
        if dies == "dies":
            sys.stdin.read()
"""


def send(broker: EmbeddedBroker, topic: str, *values: str, timestamp: int | None = None) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value.encode(), timestamp=timestamp)


def claims(broker: EmbeddedBroker, topic: str, max_offsets: int | None = None) -> OffsetIntervals:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    return OffsetIntervals(client, group_id=topic, topics=[topic], max_offsets=max_offsets)


def test_plans() -> None:
    committed = {ZERO: OffsetAndMetadata(5)}
    begins, ends = {ZERO: 0, ONE: 3}, {ZERO: 9, ONE: 4}
    assert planned(committed, begins, ends, None) == {ZERO: (5, 9), ONE: (3, 4)}
    assert planned(committed, begins, ends, 2) == {ZERO: (5, 7), ONE: (3, 4)}
    assert planned({ZERO: OffsetAndMetadata(9)}, begins, {ZERO: 9}, None) == {}
    other = {ZERO: OffsetAndMetadata(1, "theirs"), ONE: OffsetAndMetadata(1, "[1]")}
    assert pending(other) == {}
    assert not is_done(other, "theirs")


def test_a_failed_run_gets_the_same_offsets_again_and_a_finished_one_none(
    kafka_broker: EmbeddedBroker, kafka_topic: str
) -> None:
    intervals = claims(kafka_broker, kafka_topic)
    send(kafka_broker, kafka_topic, "a", "b")
    names = []

    def fail() -> None:
        with intervals.claim("one") as interval:
            assert interval is not None
            names.append(interval.name)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    send(kafka_broker, kafka_topic, "c")
    with intervals.claim("one") as interval:
        assert interval is not None
        names.append(interval.name)
        assert [record.value for record in interval.records()] == [b"a", b"b"]
    assert names[0] == names[1]
    with intervals.claim("one") as interval:
        assert interval is None
    with intervals.claim("two") as interval:
        assert interval is not None
        assert interval.name not in names
        assert [record.value for record in interval.records()] == [b"c"]
        assert len(interval) == 1
        assert interval.spark_options() == {
            "assign": f'{{"{kafka_topic}": [0]}}',
            "startingOffsets": f'{{"{kafka_topic}": {{"0": 2}}}}',
            "endingOffsets": f'{{"{kafka_topic}": {{"0": 3}}}}',
        }
    with intervals.claim("three") as interval:
        assert interval is None


def test_an_interval_ends_at_a_time_or_a_number_of_offsets(
    kafka_broker: EmbeddedBroker, kafka_topic: str
) -> None:
    send(kafka_broker, kafka_topic, "a", "b", "c", timestamp=1_000)
    send(kafka_broker, kafka_topic, "d", timestamp=2_000)
    until = datetime.fromtimestamp(2, tz=UTC)
    found = []
    for run in range(3):
        with claims(kafka_broker, kafka_topic, max_offsets=2).claim(str(run), until=until) as each:
            found.append([] if each is None else [record.value for record in each.records()])
    assert found == [[b"a", b"b"], [b"c"], []]


def test_deleted_records_are_reported_and_not_skipped(
    kafka_broker: EmbeddedBroker, kafka_topic: str
) -> None:
    from headwater.client import Admin

    send(kafka_broker, kafka_topic, "a", "b")
    where = TopicPartition(kafka_topic, 0)
    client = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    with Consumer({**client, "group.id": kafka_topic}) as consumer:
        consumer.commit({where: 0})
    with Admin(client) as admin:
        admin.delete_records({where: 1})
    with (
        pytest.raises(OffsetOutOfRange, match="deleted and not processed"),
        claims(kafka_broker, kafka_topic).claim("one"),
    ):
        raise AssertionError


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    (tmp_path / "out").mkdir()
    return tmp_path


def test_a_run_that_is_killed_after_its_write_and_retried_has_each_record_once(
    kafka_broker: EmbeddedBroker, kafka_topic: str, job: Path
) -> None:
    words = [sys.executable, "job.py", kafka_broker.bootstrap_servers, kafka_topic, "r1", "out"]
    send(kafka_broker, kafka_topic, "a", "b")
    with subprocess.Popen(
        [*words, "dies"], cwd=job, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "written\n"
        killed.send_signal(signal.SIGKILL)
    send(kafka_broker, kafka_topic, "c")
    for run_id in ("r1", "r1", "r2"):
        words[4] = run_id
        subprocess.run([*words, "lives"], cwd=job, check=True, timeout=60)
    texts = sorted(each.read_text(encoding="utf-8") for each in (job / "out").iterdir())
    assert texts == ["a b", "c"]

"""Rows into topics: once each, wherever an attempt is cut off."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from headwater.client.errors import ProducerFenced
from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.exactly_once import BatchIdentity, identity_of, write_exactly_once
from headwater.spark.sink.sink_options import SinkOptions, read_sink_options
from headwater.spark.sink.task_writer import write_at_least_once

QUERY = "0b1f6c1e-5a55-4a0e-8f3b-0d6c7a1b2c3d"
STEPS = ("init", "begin", "send", "offsets", "commit before", "commit after")


class Killed(Exception):
    """The worker is gone."""


@dataclass
class FakeTopic:
    """What a topic and its coordinators remember."""

    rows: list[object] = field(default_factory=list)
    notes: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    owner: "FakeProducer | None" = None

    def noted(self, group_id: str, marker: TopicPartition) -> int | None:
        return self.notes.get((group_id, marker))


class FakeProducer:
    """A producer whose process may die at any step."""

    def __init__(self, topic: FakeTopic, dies_at: str | None = None) -> None:
        self._topic = topic
        self._dies_at = dies_at
        self._rows: list[object] = []
        self._notes: dict[tuple[str, TopicPartition], int] = {}
        self._is_open = False

    def send_table(self, topic: str, table: pa.Table) -> "FakeProducer":  # noqa: ARG002
        self._reach("send")
        self._rows += table.column("value").to_pylist()
        if not self._is_open:
            self._topic.rows += self._rows
            self._rows = []
        return self

    def result(self, timeout: float | None = None) -> object:  # noqa: ARG002
        return None

    def init_transactions(self) -> None:
        self._topic.owner = self
        self._reach("init")

    def begin_transaction(self) -> None:
        self._reach("begin")
        self._is_open = True

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group: str
    ) -> None:
        self._reach("offsets")
        self._notes = {(group, partition): offset for partition, offset in offsets.items()}

    def commit_transaction(self) -> None:
        self._reach("commit before")
        if self._topic.owner is not self:
            raise ProducerFenced("another attempt has taken over")
        self._topic.rows += self._rows
        self._topic.notes |= self._notes
        self._reach("commit after")

    def abort_transaction(self) -> None:
        self._is_open = False
        self._rows = []

    def _reach(self, step: str) -> None:
        if step == self._dies_at:
            raise Killed(step)


def options(**more: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": "b:1", "topic": "t", "delivery": "exactly-once"} | more
    return read_sink_options(given, is_streaming=True)


def rows(*values: str) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": [value.encode()]}) for value in values]


def attempt(topic: FakeTopic, batch: int, dies_at: str | None = None) -> int:
    identity = BatchIdentity(query_id=QUERY, batch_id=batch, partition=3)
    return write_exactly_once(
        rows(f"{batch}-a", f"{batch}-b"),
        options(),
        identity,
        producer=FakeProducer(topic, dies_at),
        committed_batch=topic.noted,
    )


def test_rows_are_sent_and_counted() -> None:
    topic = FakeTopic()
    assert write_at_least_once(rows("a", "b"), "t", FakeProducer(topic)) == 2
    assert topic.rows == [b"a", b"b"]


@pytest.mark.parametrize("step", STEPS)
def test_an_attempt_that_dies_at_any_step_leaves_all_rows_once_after_the_next(step: str) -> None:
    topic = FakeTopic()
    attempt(topic, 0)
    with pytest.raises(Killed):
        attempt(topic, 1, dies_at=step)
    attempt(topic, 1)
    attempt(topic, 2)
    assert topic.rows == [b"0-a", b"0-b", b"1-a", b"1-b", b"2-a", b"2-b"]


def test_a_repeated_batch_is_read_to_its_end_and_not_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = FakeTopic()
    assert attempt(topic, 5) == 2
    assert caplog.messages == []
    left = iter(rows("x"))
    identity = BatchIdentity(query_id=QUERY, batch_id=5, partition=3)
    assert (
        write_exactly_once(
            left, options(), identity, producer=FakeProducer(topic), committed_batch=topic.noted
        )
        == 0
    )
    assert list(left) == []
    assert topic.rows == [b"5-a", b"5-b"]
    (line,) = caplog.messages
    assert line.startswith("Skipped a part of a batch that is written already: batch=5 ")


def test_a_zombie_cannot_commit_once_another_attempt_has_begun() -> None:
    topic = FakeTopic()

    def slow(values: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        yield from values
        attempt(topic, 0)

    identity = BatchIdentity(query_id=QUERY, batch_id=0, partition=3)
    with pytest.raises(ProducerFenced):
        write_exactly_once(
            slow(rows("0-a", "0-b")),
            options(),
            identity,
            producer=FakeProducer(topic),
            committed_batch=topic.noted,
        )
    assert topic.rows == [b"0-a", b"0-b"]


def test_attempts_of_one_part_share_an_id_and_parts_do_not() -> None:
    one = BatchIdentity(query_id=QUERY, batch_id=1, partition=0)
    later = BatchIdentity(query_id=QUERY, batch_id=9, partition=0)
    other = BatchIdentity(query_id=QUERY, batch_id=1, partition=1)
    assert one.transactional_id("p") == later.transactional_id("p") == f"p-{QUERY}-0"
    assert other.transactional_id("p") != one.transactional_id("p")


def test_a_task_reads_its_query_and_batch_from_sparks_local_properties() -> None:
    told: dict[str, str] = {"streaming.sql.batchId": "7", "sql.streaming.queryId": QUERY}
    assert identity_of(options(), 2, told.get) == BatchIdentity(
        query_id=QUERY, batch_id=7, partition=2
    )
    with pytest.raises(InvalidOption, match="Spark did not provide"):
        identity_of(options(), 2, lambda _: None)

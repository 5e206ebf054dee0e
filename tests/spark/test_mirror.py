"""Mirrors with Spark tasks between real brokers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.mirror.mirror import Event, Mirror
from headwater.mirror.mirror_options import mirror_options
from headwater.mirror.spark_tasks import SparkTasks
from headwater.records.batch_header import Codec
from headwater.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 600.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BORN_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def other_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def fill(broker: EmbeddedBroker, topic: str, count: int, codec: str) -> None:
    table = pa.table(
        {
            "key": [b"%d" % (number % 1_000) for number in range(count)],
            "value": [b"%0100d" % number for number in range(count)],
            "timestamp": pa.array(range(BORN_MS, BORN_MS + count), pa.int64()),
        }
    )
    with Producer(bootstrap_servers=broker.bootstrap_servers, compression_type=codec) as producer:
        producer.send_table(topic, table).result(TIMEOUT_S)


def seen(broker: EmbeddedBroker, topic: str) -> pa.Table:
    """What a read_committed consumer sees, with partitions."""
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        places = [TopicPartition(topic, each) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        tables = []
        while any(consumer.position(each) < ends[each] for each in places):
            tables.append(consumer.poll_table(1.0))
    return pa.concat_tables(tables)


def codecs_of(broker: EmbeddedBroker, topic: str) -> set[Codec]:
    with OffsetRangeReader(bootstrap_servers=broker.bootstrap_servers) as reader:
        place = TopicPartition(topic, 0)
        end = reader.offsets({place: -1})[place].offset
        return {
            header.codec for fetched in reader.read(place, 0, end) for _, header in fetched.batches
        }


def numbers_and_times(table: pa.Table) -> list[tuple[int, int]]:
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    return sorted(zip(numbers(table), [each or 0 for each in times], strict=True))


def numbers(table: pa.Table) -> list[int]:
    return [int(each or b"") for each in table.column("value").to_pylist()]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_spark_copies_batches_with_codecs_and_timestamps(
    spark: "SparkSession",
    spark_broker: EmbeddedBroker,
    other_broker: EmbeddedBroker,
    delivery: str,
) -> None:
    name = f"tea-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=spark_broker.bootstrap_servers) as admin:
        for codec in CODECS:
            admin.create_topic(f"{name}-{codec}", partitions=2)
    for codec in CODECS:
        fill(spark_broker, f"{name}-{codec}", 2_000, codec)
    options = mirror_options(
        spark_broker.bootstrap_servers,
        other_broker.bootstrap_servers,
        topics=f"{name}-.*",
        delivery=delivery,
        groups=None,
    )
    told: list[Event] = []
    counts = Mirror(options, SparkTasks(spark), on_event=told.append).run(once=True)
    assert counts.records == 2_000 * len(CODECS)
    for codec in CODECS:
        copy = f"source.{name}-{codec}"
        expected = [(number, BORN_MS + number) for number in range(2_000)]
        assert numbers_and_times(seen(other_broker, copy)) == expected
        assert codecs_of(other_broker, copy) >= {Codec[codec.upper()]}
    again = Mirror(options, SparkTasks(spark)).run(once=True)
    assert again.records == 0


def copied_by(admin: Admin, topics: list[str]) -> int:
    there = set(admin.list_topics())
    if not there.issuperset(topics):
        return 0
    places = [TopicPartition(topic, number) for topic in topics for number in range(2)]
    return sum(found.offset for found in admin.list_offsets(dict.fromkeys(places, -1)).values())


class Command:
    """`headwater mirror` as a separate process, which can be killed with its Spark."""

    def __init__(
        self, log: Path, source: EmbeddedBroker, target: EmbeddedBroker, *options: str
    ) -> None:
        command = [sys.executable, "-m", "headwater", "mirror"]
        self._log = log
        self._complaints = log.open("ab")
        self.process = subprocess.Popen(
            [*command, source.bootstrap_servers, target.bootstrap_servers, "--json", *options],
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            start_new_session=True,
        )
        # A mirror that hangs must fail the test, not block it.
        self._alarm = threading.Timer(TIMEOUT_S, self.kill)
        self._alarm.start()

    def until_copied(self, target: EmbeddedBroker, topics: list[str], count: int) -> None:
        """Wait until the target has at least this many records."""
        until_s = time.monotonic() + TIMEOUT_S
        with Admin(bootstrap_servers=target.bootstrap_servers) as admin:
            while copied_by(admin, topics) < count:
                assert time.monotonic() < until_s
                # Looked at now and then: two cores have more to do than to answer this.
                with suppress(subprocess.TimeoutExpired):
                    code = self.process.wait(0.2)
                    pytest.fail(f"the mirror has ended with {code}: {self.said()}")

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._alarm.cancel()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._complaints.close()

    def end(self) -> Event:
        """Its last output; it must have succeeded."""
        assert self.process.stdout is not None
        lines = self.process.stdout.readlines()
        assert self.process.wait() == 0, self.said()
        self.kill()
        event: Event = json.loads(lines[-1])
        return event


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("options", [(), ("--exactly-once",)], ids=["at least once", "exactly"])
def test_a_million_records_are_mirrored_although_the_mirror_is_killed_twice(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    count, log = 200_000, tmp_path / "mirror.log"
    with EmbeddedBroker() as west, EmbeddedBroker() as east:
        with Admin(bootstrap_servers=west.bootstrap_servers) as admin:
            for codec in CODECS:
                admin.create_topic(f"tea-{codec}", partitions=2)
        for codec in CODECS:
            fill(west, f"tea-{codec}", count, codec)
        group = {"group_id": "drinkers", "auto_offset_reset": "earliest"}
        with Consumer(bootstrap_servers=west.bootstrap_servers, **group) as consumer:
            consumer.subscribe(["tea-zstd"])
            before: list[int] = []
            while len(before) < count // 3:
                before += numbers(consumer.poll_table(TIMEOUT_S))
            consumer.commit()
        copies = [f"source.tea-{codec}" for codec in CODECS]
        for share in (10, 2):
            command = Command(log, west, east, "--topics", "tea-.*", *options)
            command.until_copied(east, copies, count * len(CODECS) // share)
            command.kill()
        last = Command(log, west, east, "--topics", "tea-.*", "--once", *options)
        assert last.end()["lag"] == 0
        for codec in CODECS:
            copy = f"source.tea-{codec}"
            found = numbers_and_times(seen(east, copy))
            expected = [(number, BORN_MS + number) for number in range(count)]
            assert sorted(set(found)) == expected, "something is lost"
            if options:
                assert len(found) == len(expected), "something came twice"
            assert codecs_of(east, copy) >= {Codec[codec.upper()]}
        settings = {**group, "isolation_level": "read_committed"}
        with Consumer(bootstrap_servers=east.bootstrap_servers, **settings) as consumer:
            consumer.subscribe(["source.tea-zstd"])
            after: list[int] = []
            while len(set(before + after)) < count:
                after += numbers(consumer.poll_table(TIMEOUT_S))
        if options:
            assert sorted(before + after) == list(range(count)), "the group read something twice"

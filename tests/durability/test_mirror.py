"""A mirror that is killed repeatedly while it copies, and the target's content."""

import subprocess
import sys
import time

import pyarrow as pa
import pytest

from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.testing import EmbeddedBroker

TIMEOUT_S = 240.0
TOPICS = ("tea-none", "tea-zstd")
PARTITIONS = 2


def fill(broker: EmbeddedBroker, topic: str, count: int) -> None:
    """Produce small batches, so that there is time for kills between them."""
    codec = topic.removeprefix("tea-")
    with (
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "compression.type": codec,
                "headwater.table.batch.bytes": 16_384,
            }
        ) as producer,
    ):
        admin.create_topic(topic, partitions=PARTITIONS)
        values = pa.array([b"%0100d" % number for number in range(count)])
        where = pa.array([number % PARTITIONS for number in range(count)], pa.int32())
        table = pa.table({"value": values, "partition": where})
        producer.send_table(topic, table).result(TIMEOUT_S)


def copied(admin: Admin) -> int:
    names = [f"source.{topic}" for topic in TOPICS]
    if not set(admin.list_topics()).issuperset(names):
        return 0
    places = [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]
    return sum(found.offset for found in admin.list_offsets(dict.fromkeys(places, -1)).values())


def start(west: EmbeddedBroker, east: EmbeddedBroker, *more: str) -> "subprocess.Popen[bytes]":
    module = [sys.executable, "-m", "tests.durability.mirroring"]
    return subprocess.Popen([*module, west.bootstrap_servers, east.bootstrap_servers, *more])


def kill_at(process: "subprocess.Popen[bytes]", admin: Admin, count: int) -> None:
    until_s = time.monotonic() + TIMEOUT_S
    while copied(admin) < count:
        assert time.monotonic() < until_s, f"{copied(admin)} of {count} records are copied"
        assert process.poll() is None, "the mirror has ended"
    process.kill()
    process.wait()


def seen(broker: EmbeddedBroker, topic: str) -> dict[int, list[int]]:
    """Return the values that a read_committed consumer sees, by partition."""
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(each) < ends[each] for each in places):
            table = consumer.poll_table(1.0)
            rows = zip(
                table.column("partition").to_pylist(),
                table.column("value").to_pylist(),
                strict=True,
            )
            for partition, value in rows:
                found[partition or 0].append(int(value or b""))
    return found


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_mirror_killed_twice_loses_nothing_and_duplicates_nothing_with_exactly_once(
    delivery: str,
) -> None:
    check(delivery, 30_000)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_mirror_killed_twice_with_a_million_records(delivery: str) -> None:
    check(delivery, 500_000)


def check(delivery: str, count: int) -> None:
    with EmbeddedBroker() as west, EmbeddedBroker() as east:
        for topic in TOPICS:
            fill(west, topic, count)
        with Admin(bootstrap_servers=east.bootstrap_servers) as admin:
            for share in (20, 2):
                process = start(west, east, delivery)
                kill_at(process, admin, count * len(TOPICS) // share)
        assert start(west, east, delivery, "--once").wait(TIMEOUT_S) == 0
        for topic in TOPICS:
            found = seen(east, f"source.{topic}")
            for partition, values in found.items():
                wanted = list(range(partition, count, PARTITIONS))
                assert sorted(set(values)) == wanted, "something is lost"
                if delivery == "exactly-once":
                    assert values == wanted, "something came twice, or out of order"

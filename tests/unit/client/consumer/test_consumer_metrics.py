"""Consumer metrics under Kafka's names."""

import time

import pytest

from headwater.client import Consumer, TopicPartition
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading

TIMEOUT_S = 60
PLACE = TopicPartition("tea", 0)


def read(consumer: Consumer, count: int, *, as_tables: bool) -> None:
    limit_s = time.monotonic() + TIMEOUT_S
    while consumer.position(PLACE) < count:
        assert time.monotonic() < limit_s
        if as_tables:
            consumer.poll_table(0.1)
        else:
            consumer.poll(0.1)


@pytest.mark.parametrize("as_tables", [False, True], ids=["records", "tables"])
def test_only_consumed_records_count_not_buffered_ones(as_tables: bool) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        reading = MockReading(cluster)
        for _ in range(3):
            reading.append("tea", 0, count=5)
        log_bytes = sum(map(len, reading.logs[PLACE]))
        with Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=10,
            max_poll_records=4,
        ) as consumer:
            consumer.assign([PLACE])
            assert consumer.metrics()["records-consumed-total"] == 0
            read(consumer, 15, as_tables=as_tables)
            metrics = consumer.metrics()
    assert metrics["records-consumed-total"] == 15
    assert metrics["bytes-consumed-total"] == log_bytes
    assert metrics["fetch-total"] >= 3
    assert metrics["fetch-size-max"] == max(map(len, reading.logs[PLACE]))
    assert metrics["fetch-size-avg"] * metrics["fetch-total"] == pytest.approx(log_bytes)
    assert metrics["fetch-latency-max"] >= metrics["fetch-latency-avg"] >= 0
    assert metrics["records-lag-max"] == 0
    assert metrics["assigned-partitions"] == 1


def test_commits_and_rebalances_count_once_each() -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        reading = MockReading(cluster)
        reading.append("tea", 0, count=5)
        with Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=10,
        ) as consumer:
            consumer.subscribe(["tea"])
            limit_s = time.monotonic() + TIMEOUT_S
            while not consumer.poll(0.1):
                assert time.monotonic() < limit_s
            consumer.commit()
            consumer.commit()
            metrics = consumer.metrics()
    assert metrics["commit-total"] == 2
    assert metrics["rebalance-total"] == 1

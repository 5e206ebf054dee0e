"""Metrics of a broker after requests of another client."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.common.settings.setting_types import Value
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import scrape

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"headwater.metrics.listener": "127.0.0.1:0"}) as running:
        yield running


def test_produced_and_fetched_bytes_are_counted(broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        producer.produce("tea", value=b"x" * 100, key=str(number))
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("tea", 0, 0)])
    received = 0
    while received < 10:
        received += len(consumer.consume(10, TIMEOUT_S))
    consumer.close()

    numbers = scrape(broker)
    topic = "kafka_server_brokertopicmetrics_"
    assert numbers[topic + 'messagesin_total{topic="tea"}'] == 10
    assert numbers[topic + 'bytesin_total{topic="tea"}'] > 1_000
    assert (
        numbers[topic + 'bytesout_total{topic="tea"}']
        >= (numbers[topic + 'bytesin_total{topic="tea"}'])
    )
    log = '{topic="tea",partition="0"}'
    assert numbers["kafka_log_log_logstartoffset" + log] == 0
    assert numbers["kafka_log_log_logendoffset" + log] == 10
    assert numbers["kafka_log_log_size" + log] == numbers[topic + 'bytesin_total{topic="tea"}']
    # Clients look for a coordinator, and so there may be partitions of its topic too.
    assert numbers["kafka_server_replicamanager_partitioncount"] >= 1
    assert (
        numbers["kafka_server_replicamanager_leadercount"]
        == (numbers["kafka_server_replicamanager_partitioncount"])
    )
    times = "kafka_network_requestmetrics_totaltime_seconds"
    assert numbers[times + '_count{request="Produce"}'] >= 1
    assert (
        numbers[times + '_bucket{request="Produce",le="+Inf"}']
        == (numbers[times + '_count{request="Produce"}'])
    )
    assert any(name.startswith("kafka_network_requestmetrics_requests_total") for name in numbers)


def test_groups_reads_and_runtime_are_counted(broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("coffee", value=b"x" * 1_000)
    assert producer.flush(TIMEOUT_S) == 0
    before = scrape(broker)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "drinkers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["coffee"])
    assert len(consumer.consume(1, TIMEOUT_S)) == 1
    consumer.commit(asynchronous=False)

    numbers = scrape(broker)
    groups = "kafka_server_group_coordinator_metrics_"
    assert numbers[groups + 'group_count{protocol="classic",state="Stable"}'] == 1
    rebalances = groups + "group_completed_rebalance_total"
    assert numbers[rebalances] == before[rebalances] + 1
    assert numbers["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 1
    hot = 'headwater_read_bytes_total{from="cache"}'
    assert numbers[hot] >= before[hot] + 1_000
    assert numbers["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert numbers["headwater_event_loop_delay_seconds_count"] > 0
    assert numbers["headwater_event_loop_cpu_seconds_total"] > 0
    consumer.close()


def test_lag_of_a_stalled_group_is_in_a_scrape() -> None:
    settings: dict[str, Value] = {
        "headwater.metrics.listener": "127.0.0.1:0",
        "headwater.group.lag.interval.ms": 200,
    }
    with EmbeddedBroker(settings) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

        def produce() -> None:
            producer.produce("tea", value=b"x", partition=0)
            assert producer.flush(TIMEOUT_S) == 0

        produce()
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "stalled",
                "auto.offset.reset": "earliest",
            }
        )
        # The group has read the only record, and then reads no more.
        consumer.commit(offsets=[TopicPartition("tea", 0, 1)], asynchronous=False)
        records = 'headwater_group_lag_records{group="stalled",topic="tea"}'
        seconds = 'headwater_group_lag_seconds{group="stalled",topic="tea"}'
        await_true(lambda: scrape(broker).get(records) == 0)
        assert scrape(broker)[seconds] == 0
        began_s = time.monotonic()
        produce()
        await_true(lambda: scrape(broker)[records] == 1)
        await_true(lambda: scrape(broker)[seconds] >= 2)
        stalled_s = time.monotonic() - began_s
        # A busy machine may sample late, but time does not run faster.
        assert scrape(broker)[seconds] <= time.monotonic() - began_s + 0.2
        assert stalled_s >= 1.8
        consumer.commit(offsets=[TopicPartition("tea", 0, 2)], asynchronous=False)
        assert scrape(broker)[seconds] == 0
        assert scrape(broker)["headwater_group_lag_omitted"] == 0
        consumer.close()


def await_true(what: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not what():
        assert time.monotonic() < until, "it has not come about"

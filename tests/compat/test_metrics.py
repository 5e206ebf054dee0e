"""Metrics of a broker after requests of another client."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

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

"""A topic that was recreated with fewer partitions: records go to existing partitions.

The producer refreshes its metadata after the broker rejected a batch for the old topic.
"""

from typing import NoReturn

import pyarrow as pa
import pytest

from headwater.client.errors import InvalidPartitions, KafkaTimeout
from headwater.client.producer.partition_queues import TopicQueues
from headwater.records.kernel import murmur2
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.labs.producer_faces import Face, OpenProducer

KEYS = [b"%d" % number for number in range(60)]


def known(producer: Face) -> TopicQueues:
    """The producer's queues of the topic."""
    return producer.engine._core.accumulator.topics["tea"]


def shrink(producer: Face, cluster: MockCluster) -> None:
    """Shrink from six partitions to two, and refresh the producer's metadata."""
    producer.result(producer.send("tea", b"before", partition=5))
    cluster.on_loop(lambda: cluster.create_topic("tea", 2))
    producer.result(producer.send("tea", b"after", partition=0))


def delete(producer: Face, cluster: MockCluster) -> None:
    """Remove a topic, and refresh the producer's metadata."""
    cluster.on_loop(cluster.topics.clear)
    with pytest.raises(KafkaTimeout, match="UNKNOWN_TOPIC_OR_PARTITION"):
        send_without_end(producer)


def send_without_end(producer: Face) -> NoReturn:
    while True:
        producer.send("tea", b"lost", key=b"a key")


def settings(cluster: MockCluster) -> dict[str, object]:
    return {"bootstrap_servers": cluster.bootstrap_servers, "linger_ms": 0}


def test_keys_choose_among_existing_partitions(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 6}) as cluster:
        producer = open_producer(**settings(cluster))
        for key in KEYS:
            producer.result(producer.send("tea", b"x", key=key))
        shrink(producer, cluster)
        for key in KEYS:
            sent = producer.result(producer.send("tea", b"x", key=key))
            assert sent.partition == (murmur2(key) & 0x7FFFFFFF) % 2
        assert len(producer.do("partitions_for", "tea")) == 2


def test_records_without_a_key_leave_a_removed_partition(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 6}) as cluster:
        producer = open_producer(**settings(cluster))
        producer.result(producer.send("tea", b"x"))
        known(producer).sticky.partition = 4
        shrink(producer, cluster)
        sent = [producer.result(producer.send("tea", bytes(9_000))).partition for _ in range(20)]
        assert set(sent) == {0, 1}


def test_partitioners_get_the_current_partition_count(open_producer: OpenProducer) -> None:
    told: list[int] = []

    def last(*given: int) -> int:
        """Of topic, key, value and count, only the count matters."""
        told.append(given[-1])
        return given[-1] - 1

    with MockCluster(topics={"tea": 6}) as cluster:
        producer = open_producer(partitioner_class=last, **settings(cluster))
        assert producer.result(producer.send("tea", b"x")).partition == 5
        shrink(producer, cluster)
        assert producer.result(producer.send("tea", b"x")).partition == 1
        assert told == [6, 2]


def test_round_robin_uses_existing_partitions(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 6}) as cluster:
        producer = open_producer(partitioner_class="round_robin", **settings(cluster))
        assert [producer.result(producer.send("tea", b"x")).partition for _ in range(6)] == [
            *range(6)
        ]
        shrink(producer, cluster)
        sent = [producer.result(producer.send("tea", b"x")).partition for _ in range(6)]
        assert sent == [0, 1, 0, 1, 0, 1]


def test_tables_go_to_existing_partitions(open_producer: OpenProducer) -> None:
    keyed = pa.table({"key": KEYS, "value": KEYS})
    keyless = pa.table({"value": KEYS})
    with MockCluster(topics={"tea": 6}) as cluster:
        producer = open_producer(**settings(cluster))
        producer.do("send_table", "tea", keyed).result(30)
        shrink(producer, cluster)
        for table in (keyed, keyless, keyless, keyless):
            producer.do("send_table", "tea", table).result(30)
        assert sum(len(each.records) for each in cluster.topics["tea"]) == 1 + 4 * len(KEYS)
        named = pa.table({"partition": [5], "value": [b"x"]})
        with pytest.raises(InvalidPartitions, match="0 to 1"):
            producer.do("send_table", "tea", named)


def test_a_removed_partition_is_awaited_like_a_missing_one(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 6}) as cluster:
        producer = open_producer(max_block_ms=2_000, **settings(cluster))
        shrink(producer, cluster)
        with pytest.raises(KafkaTimeout, match="2 partitions"):
            producer.send("tea", b"x", partition=5)
        cluster.on_loop(lambda: cluster.create_topic("tea", 6))
        assert producer.result(producer.send("tea", b"x", partition=5)).partition == 5


def test_records_of_a_removed_partition_fail_at_their_timeout_and_others_do_not(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 6}) as cluster:
        producer = open_producer(
            request_timeout_ms=1_500, delivery_timeout_ms=1_500, **settings(cluster)
        )
        producer.result(producer.send("tea", b"x", partition=5))
        cluster.on_loop(lambda: cluster.create_topic("tea", 2))
        lost = producer.send("tea", b"lost", partition=5)
        assert producer.result(producer.send("tea", b"x", partition=0)).offset == 0
        with pytest.raises(KafkaTimeout, match=r"delivery\.timeout\.ms"):
            producer.result(lost)
        assert producer.result(producer.send("tea", b"x", key=b"a key")).partition in (0, 1)


def test_a_removed_topic_is_awaited_until_it_exists_again(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 6}) as cluster:
        producer = open_producer(max_block_ms=2_000, **settings(cluster))
        for key in KEYS:
            producer.result(producer.send("tea", b"x", key=key))
        delete(producer, cluster)
        cluster.on_loop(lambda: cluster.create_topic("tea", 2))
        for key in KEYS:
            assert producer.result(producer.send("tea", b"x", key=key)).partition in (0, 1)


def test_an_unused_topic_is_refreshed_before_keys_choose(
    open_producer: OpenProducer,
) -> None:
    """metadata.max.idle.ms: the known metadata may be stale."""
    with MockCluster(topics={"tea": 6, "coffee": 1}) as cluster:
        producer = open_producer(**settings(cluster))
        for topic in ("tea", "coffee"):
            producer.result(producer.send(topic, b"x"))
        # Set the last use back in time instead of waiting.
        producer.engine.cluster.schedule._used_ms["tea"] = -1_000_000
        cluster.on_loop(lambda: cluster.create_topic("tea", 2))
        cluster.on_loop(lambda: cluster.create_topic("coffee", 2))
        producer.result(producer.send("coffee", b"x", partition=1))
        for key in KEYS:
            assert producer.result(producer.send("tea", b"x", key=key)).partition in (0, 1)


def test_a_negative_partition_is_rejected(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 2}) as cluster:
        producer = open_producer(**settings(cluster))
        with pytest.raises(InvalidPartitions):
            producer.send("tea", b"x", partition=-1)
        with pytest.raises(InvalidPartitions):
            producer.do("send_batch", "tea", -1, bytearray())

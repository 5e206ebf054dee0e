"""A mirror between Apache Kafka and Headwater, in both directions."""

import uuid

import pyarrow as pa
import pytest

from headwater.client import Admin, Producer, TopicPartition
from headwater.mirror.mirror import Mirror
from headwater.mirror.mirror_options import mirror_options
from tests.compat.clients import Reading, read
from tests.compat.judges import CONFLUENT
from tests.compat.topics import create_topic
from tests.durability.mirroring import in_this_process
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.headwater_broker import HeadwaterBroker

TIMEOUT_S = 60.0
COUNT = 300


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("is_to_kafka", [True, False], ids=["to Kafka", "from Kafka"])
def test_records_are_mirrored(
    apache_kafka: ApacheKafka, headwater: HeadwaterBroker, is_to_kafka: bool, delivery: str
) -> None:
    kafka, ours = apache_kafka.bootstrap_servers, headwater.bootstrap_servers
    source, target = (ours, kafka) if is_to_kafka else (kafka, ours)
    topic = f"tea-{uuid.uuid4().hex[:8]}"
    create_topic(source, topic, partitions=2)
    values = [b"%d" % number for number in range(COUNT)]
    with Producer(bootstrap_servers=source, compression_type="lz4") as producer:
        where = pa.array([number % 2 for number in range(COUNT)], pa.int32())
        table = pa.table({"value": values, "partition": where})
        producer.send_table(topic, table).result(TIMEOUT_S)
    offsets = {TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 150}
    with Admin(bootstrap_servers=source) as admin:
        admin.alter_group_offsets(f"group-{topic}", offsets)
    for _ in range(2):
        options = mirror_options(source, target, topics=topic, delivery=delivery)
        Mirror(options, in_this_process).run(once=True)
    copy = f"source.{topic}"
    reading = Reading(is_committed_only=True)
    found = read(CONFLUENT, target, copy, COUNT, partitions=(0, 1), reading=reading)
    assert sorted(int(each.value or b"") for each in found) == list(range(COUNT))
    with Admin(bootstrap_servers=target) as admin:
        moved = admin.list_group_offsets(f"group-{topic}")
    assert {place: at.offset for place, at in moved.items()} == {(copy, 0): 7, (copy, 1): 150}

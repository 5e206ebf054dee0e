"""Java properties files as client settings."""

from pathlib import Path

import pytest

from headwater.client import Consumer, Producer, read_properties
from headwater.client.errors import InvalidSetting

JAVAS = """\
# A file that a producer and a consumer in Java share.
bootstrap.servers = 127.0.0.1:9
key.serializer = org.apache.kafka.common.serialization.StringSerializer
value.serializer = org.apache.kafka.common.serialization.ByteArraySerializer
key.deserializer = org.apache.kafka.common.serialization.StringDeserializer
value.deserializer = org.apache.kafka.common.serialization.LongDeserializer
partitioner.class = org.apache.kafka.clients.producer.RoundRobinPartitioner
partition.assignment.strategy = org.apache.kafka.clients.consumer.StickyAssignor
acks = all
group.id = drinkers
metrics.recording.level = DEBUG
"""


def test_a_java_properties_file_configures_producer_and_consumer(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(JAVAS)
    with Producer(read_properties(file)), Consumer(read_properties(str(file))):
        pass


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"cannot read .*missing: No such file"):
        read_properties(tmp_path / "missing")
    broken = tmp_path / "broken"
    broken.write_text(r"client.id = \u12")
    with pytest.raises(InvalidSetting, match=r"cannot read .*broken"):
        read_properties(broken)

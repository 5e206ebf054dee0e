"""Topics of a pipeline under test."""

from headwater.client import Admin, Producer, ProducerRecord
from headwater.testing import EmbeddedBroker
from headwater.testing.pipelines.pipeline_topics import TopicSet


def test_topics_of_a_test_are_empty_at_its_start(kafka_broker: EmbeddedBroker) -> None:
    """Although a client has created one again after an earlier test deleted it."""
    client = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    for _ in range(2):
        with TopicSet(client) as topics, Admin(client) as admin:
            topics.make(["teas"], 3)
            assert len(admin.describe_topics(["teas"])["teas"].partitions) == 3
            topics.send([ProducerRecord(topic="teas", value=b"green")])
            topics.move_end(["teas"])
            assert [each.value for each in topics.read_new("teas")] == [b"green"]
            assert topics.read_new("teas") == []
        with Admin(client) as admin:
            assert "teas" not in admin.list_topics()
            admin.create_topic("teas", partitions=1)
    with Admin(client) as admin:
        admin.delete_topics(["teas"])


def test_topics_of_others_are_kept(kafka_broker: EmbeddedBroker, kafka_topic: str) -> None:
    client = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    with Producer(client) as producer:
        producer.send(kafka_topic, b"theirs")
    with TopicSet(client) as topics:
        topics.make([kafka_topic], 3)
        topics.note([kafka_topic])
        assert [each.value for each in topics.read_new(kafka_topic)] == [b"theirs"]
    with Admin(client) as admin:
        assert kafka_topic in admin.list_topics()

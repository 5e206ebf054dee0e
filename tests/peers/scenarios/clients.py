"""Unmodified clients."""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.compat import foreign
from tests.peers.lab import Lab
from tests.peers.transcript import Plain

_TIMEOUT_S = 20.0


def _delivered(report: list[Plain]) -> Callable[[KafkaError | None, Message], None]:
    def note(error: KafkaError | None, message: Message) -> None:
        report.append(error.name() if error else f"{message.partition()}@{message.offset()}")

    return note


def _read(lab: Lab, topic: str, count: int) -> list[Plain]:
    consumer = Consumer(
        {"bootstrap.servers": lab.bootstrap_servers, "group.id": "none", "check.crcs": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=_TIMEOUT_S)
    consumer.close()
    return [
        {
            "offset": message.offset(),
            "key": str(message.key()),
            "value": f"{len(message.value() or b'')} bytes",
            "headers": str(message.headers()),
        }
        for message in messages
    ]


def librdkafka_in_every_codec(lab: Lab) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = lab.topic(codec)
        report: list[Plain] = []
        producer = Producer(
            {
                "bootstrap.servers": lab.bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 50,
            }
        )
        for number in range(50):
            value = b"v" * (number * 20)
            headers: list[tuple[str, str | bytes | None]] = [("n", str(number).encode())]
            producer.produce(
                topic, value, b"k%d" % number, on_delivery=_delivered(report), headers=headers
            )
        producer.flush(_TIMEOUT_S)
        lab.note(f"{codec}: reports", report)
        lab.note(f"{codec}: records", _read(lab, topic, 50))


def librdkafka_errors(lab: Lab) -> None:
    topic = lab.topic(max_message_bytes="500")
    report: list[Plain] = []
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "message.timeout.ms": 5000})
    producer.produce(topic, b"x" * 1000, on_delivery=_delivered(report))
    producer.produce(topic, b"x", partition=9, on_delivery=_delivered(report))
    producer.flush(_TIMEOUT_S)
    lab.note("too large, and no such partition", report)
    consumer = Consumer(
        {
            "bootstrap.servers": lab.bootstrap_servers,
            "group.id": "none",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 4711)])
    message = consumer.poll(_TIMEOUT_S)
    error = None if message is None else message.error()
    lab.note("an offset out of range", None if error is None else error.name())
    lab.note("watermarks", list(consumer.get_watermark_offsets(TopicPartition(topic, 0))))
    consumer.close()


def librdkafka_administration(lab: Lab) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_servers})
    name = lab.named("made")

    def outcome(label: str, act: Callable[[], object]) -> None:
        try:
            act()
        except KafkaException as error:
            lab.note(label, error.args[0].name())
        else:
            lab.note(label, "done")

    def created(topic: str, partitions: int = 1, factor: int = 1) -> Callable[[], object]:
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=factor)
        return lambda: admin.create_topics([wanted])[topic].result(_TIMEOUT_S)

    outcome("create", created(name, 2))
    lab.await_leaders(name, 2)
    outcome("create again", created(name))
    outcome("create with three replicas", created(lab.named("three"), 1, 3))
    outcome("create with a bad name", created("a b"))
    found = admin.list_topics(name, timeout=_TIMEOUT_S).topics[name]
    lab.note("partitions", sorted(found.partitions))
    grown = NewPartitions(name, 4)
    outcome("grow", lambda: admin.create_partitions([grown])[name].result(_TIMEOUT_S))
    resource = ConfigResource(ResourceType.TOPIC, name)
    configs = admin.describe_configs([resource])[resource].result(_TIMEOUT_S)
    lab.note("retention", configs["retention.ms"].value)
    outcome("delete", lambda: admin.delete_topics([name])[name].result(_TIMEOUT_S))
    gone = lab.named("nowhere")
    outcome(
        "delete what is not there", lambda: admin.delete_topics([gone])[gone].result(_TIMEOUT_S)
    )


def kafka_python_produces_and_reads(lab: Lab) -> None:
    kafka = foreign.load("kafka")
    topic = lab.topic()
    place = kafka.TopicPartition(topic, 0)
    producer = kafka.KafkaProducer(bootstrap_servers=lab.bootstrap_servers, compression_type="gzip")
    for number in range(3):
        sent = producer.send(topic, b"v%d" % number, key=b"k", timestamp_ms=lab.start_ms + number)
        lab.note(f"record {number}", sent.get(timeout=_TIMEOUT_S).offset)
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=lab.bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=int(_TIMEOUT_S * 1000),
    )
    consumer.assign([place])
    records = [next(consumer) for _ in range(3)]
    lab.note("records", [f"{each.offset}: {each.key} {each.value}" for each in records])
    lab.note("beginning", consumer.beginning_offsets([place])[place])
    lab.note("end", consumer.end_offsets([place])[place])
    found = consumer.offsets_for_times({place: lab.start_ms + 1})[place]
    lab.note("by time", None if found is None else found.offset)
    consumer.close()

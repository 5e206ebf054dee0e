"""Topics for benchmarks, made the way users make them."""

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.processes import Server


def create_topic(server: Server, name: str, partitions: int = 1) -> None:
    """Make a topic, and wait until the broker says that it is there."""
    admin = AdminClient({"bootstrap.servers": server.address, "log_level": 3})
    for made in admin.create_topics([NewTopic(name, partitions)]).values():
        made.result(timeout=30)

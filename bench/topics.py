"""Topics for benchmarks, made the way users make them."""

from typing import Protocol

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


class Addressed(Protocol):
    """A broker that can be reached."""

    @property
    def address(self) -> str: ...


def create_topic(server: Addressed, name: str, partitions: int = 1) -> None:
    """Make a topic, and wait until the broker says that it is there."""
    admin = AdminClient({"bootstrap.servers": server.address, "log_level": 3})
    for made in admin.create_topics([NewTopic(name, partitions)]).values():
        made.result(timeout=30)

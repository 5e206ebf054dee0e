"""Create topics for benchmarks as users do."""

from typing import Protocol

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


class Addressed(Protocol):
    """Broker with an address."""

    @property
    def address(self) -> str: ...


def create_topic(server: Addressed, name: str, partitions: int = 1) -> None:
    """Create a topic, and wait for the broker's response."""
    admin = AdminClient({"bootstrap.servers": server.address, "log_level": 3})
    for made in admin.create_topics([NewTopic(name, partitions)]).values():
        made.result(timeout=30)

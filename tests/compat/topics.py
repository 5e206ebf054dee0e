"""Topics for tests of other clients, created with librdkafka's admin client."""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.compat.clients import TIMEOUT_S


def admin_of(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def create_topic(
    servers: str, topic: str, config: Mapping[str, str] | None = None, *, partitions: int = 1
) -> None:
    wanted = NewTopic(topic, partitions, 1, config=dict(config or {}))
    # The client has a name, since its pending requests end with it.
    admin = admin_of(servers)
    admin.create_topics([wanted])[topic].result(TIMEOUT_S)

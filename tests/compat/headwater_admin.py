"""Our own admin client behind the interface of `tests.compat.admins`."""

from collections.abc import Iterable, Mapping

from headwater.client import Admin, ConfigResource, NewTopic, TopicPartition


class HeadwaterAdmin:
    name = "headwater"

    def __init__(self, servers: str) -> None:
        self._admin = Admin(bootstrap_servers=servers)

    def create(
        self,
        topics: Iterable[str],
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._admin.create_topics(
            NewTopic(name=name, partitions=partitions, replication_factor=1, configs=config or {})
            for name in topics
        )

    def names(self) -> list[str]:
        return self._admin.list_topics(include_internal=True)

    def cluster(self) -> tuple[str | None, tuple[str, ...]]:
        found = self._admin.describe_cluster()
        return found.cluster_id, tuple(str(each.address) for each in found.brokers)

    def partition_count(self, topic: str) -> int:
        return len(self._admin.describe_topics([topic])[topic].partitions)

    def delete(self, topics: Iterable[str]) -> None:
        self._admin.delete_topics(list(topics))

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions({topic: partitions})

    def config_of(self, topic: str) -> dict[str, str | None]:
        return self._config(ConfigResource.topic(topic))

    def broker_config(self, node_id: int) -> dict[str, str | None]:
        return self._config(ConfigResource.broker(node_id))

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        self._admin.alter_configs({ConfigResource.topic(topic): dict(config)})

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        place = TopicPartition(topic, partition)
        return self._admin.delete_records({place: before_offset})[place]

    def close(self) -> None:
        self._admin.close()

    def _config(self, resource: ConfigResource) -> dict[str, str | None]:
        configs = self._admin.describe_configs([resource])[resource]
        return {name: entry.value for name, entry in configs.items()}

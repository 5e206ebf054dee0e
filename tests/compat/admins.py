"""Admin clients of other libraries, and ours, behind one interface.

Note: aiokafka's raises nothing and returns responses as they came, so their error codes are
converted to its own exceptions here. kafka-python's returns some as text.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.compat.clients import TIMEOUT_S
from tests.compat.foreign import load
from tests.compat.headwater_admin import HeadwaterAdmin
from tests.compat.loop_thread import LoopThread

# Its types are not among the names that it exports.
_confluent = load("confluent_kafka.admin")

_aiokafka_admin = load("aiokafka.admin")
_aiokafka = load("aiokafka")
_aiokafka_errors = load("aiokafka.errors")
_aiokafka_resources = load("aiokafka.admin.config_resource")
_kafka = load("kafka")
_kafka_admin = load("kafka.admin")
_kafka_errors = load("kafka.errors")

_TIMEOUT_MS: Final = int(TIMEOUT_S * 1_000)


class OpenAdmin(Protocol):
    """An admin client that works until it is closed. Raises its library's own errors."""

    def create(
        self,
        topics: Iterable[str],
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None: ...

    def names(self) -> list[str]: ...

    def cluster(self) -> tuple[str | None, tuple[str, ...]]:
        """Return the cluster id, and the brokers' addresses."""
        ...

    def partition_count(self, topic: str) -> int: ...

    def delete(self, topics: Iterable[str]) -> None: ...

    def grow(self, topic: str, partitions: int) -> None: ...

    def config_of(self, topic: str) -> dict[str, str | None]: ...

    def broker_config(self, node_id: int) -> dict[str, str | None]: ...

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        """Set these configs; whether others are kept is up to the library."""
        ...

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Return the log start offset afterwards."""
        ...

    def close(self) -> None: ...


class ConfluentAdmin:
    name = "confluent-kafka"

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def create(
        self,
        topics: Iterable[str],
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        wanted = [NewTopic(name, partitions, 1, config=dict(config or {})) for name in topics]
        _await_all(self._admin.create_topics(wanted, request_timeout=TIMEOUT_S))

    def cluster(self) -> tuple[str | None, tuple[str, ...]]:
        found = self._admin.describe_cluster().result(TIMEOUT_S)
        return found.cluster_id, tuple(f"{each.host}:{each.port}" for each in found.nodes)

    def names(self) -> list[str]:
        return list(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def partition_count(self, topic: str) -> int:
        found = self._admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)
        return len(found[topic].result(TIMEOUT_S).partitions)

    def delete(self, topics: Iterable[str]) -> None:
        _await_all(self._admin.delete_topics(list(topics), request_timeout=TIMEOUT_S))

    def grow(self, topic: str, partitions: int) -> None:
        _await_all(self._admin.create_partitions([NewPartitions(topic, partitions)]))

    def config_of(self, topic: str) -> dict[str, str | None]:
        return self._config(_confluent.ResourceType.TOPIC, topic)

    def broker_config(self, node_id: int) -> dict[str, str | None]:
        return self._config(_confluent.ResourceType.BROKER, str(node_id))

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        entries = [
            _confluent.ConfigEntry(
                name, value, incremental_operation=_confluent.AlterConfigOpType.SET
            )
            for name, value in config.items()
        ]
        resource = _confluent.ConfigResource(
            _confluent.ResourceType.TOPIC, topic, incremental_configs=entries
        )
        _await_all(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        place = TopicPartition(topic, partition, before_offset)
        answer = self._admin.delete_records([place])[place].result(TIMEOUT_S)
        return int(answer.low_watermark)

    def close(self) -> None:
        """Nothing to close; it ends when it is garbage-collected."""

    def _config(self, kind: Any, name: str) -> dict[str, str | None]:
        resource = _confluent.ConfigResource(kind, name)
        entries = self._admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return {name: entry.value for name, entry in entries.items()}


class KafkaPythonAdmin:
    name = "kafka-python"

    def __init__(self, servers: str) -> None:
        self._admin = _kafka_admin.KafkaAdminClient(
            bootstrap_servers=servers, request_timeout_ms=_TIMEOUT_MS
        )

    def create(
        self,
        topics: Iterable[str],
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        wanted = {
            name: {
                "num_partitions": partitions,
                "replication_factor": 1,
                "configs": dict(config or {}),
            }
            for name in topics
        }
        self._admin.create_topics(wanted)

    def cluster(self) -> tuple[str | None, tuple[str, ...]]:
        found = self._admin.describe_cluster()
        return found["cluster_id"], _addresses(found["brokers"])

    def names(self) -> list[str]:
        return list(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        (found,) = self._admin.describe_topics([topic])
        return len(found["partitions"])

    def delete(self, topics: Iterable[str]) -> None:
        self._admin.delete_topics(list(topics))

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions({topic: partitions})

    def config_of(self, topic: str) -> dict[str, str | None]:
        return self._config("TOPIC", topic)

    def broker_config(self, node_id: int) -> dict[str, str | None]:
        return self._config("BROKER", str(node_id))

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        resource = _kafka_admin.ConfigResource("TOPIC", topic, configs=dict(config))
        (answer,) = self._admin.alter_configs([resource])["topic"].values()
        if answer != "OK":
            raise _kafka_errors.for_code(_code_in(answer))(answer)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        place = _kafka.TopicPartition(topic, partition)
        return int(self._admin.delete_records({place: before_offset})[place]["low_watermark"])

    def close(self) -> None:
        self._admin.close()

    def _config(self, kind: str, name: str) -> dict[str, str | None]:
        resource = _kafka_admin.ConfigResource(kind, name)
        found = self._admin.describe_configs([resource], config_filter="all")
        return {key: entry["value"] for key, entry in found[kind.lower()][name].items()}


class AioKafkaAdmin:
    name = "aiokafka"

    def __init__(self, servers: str) -> None:
        self._thread = LoopThread()

        async def start() -> Any:
            admin = _aiokafka_admin.AIOKafkaAdminClient(
                bootstrap_servers=servers, request_timeout_ms=_TIMEOUT_MS
            )
            await admin.start()
            return admin

        self._admin = self._thread.do(start())

    def create(
        self,
        topics: Iterable[str],
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        wanted = [
            _aiokafka_admin.NewTopic(name, partitions, 1, topic_configs=dict(config or {}))
            for name in topics
        ]
        answer = self._thread.do(self._admin.create_topics(wanted))
        _raise_first(each[1] for each in answer.topic_errors)

    def cluster(self) -> tuple[str | None, tuple[str, ...]]:
        found = self._thread.do(self._admin.describe_cluster())
        return found["cluster_id"], _addresses(found["brokers"])

    def names(self) -> list[str]:
        return list(self._thread.do(self._admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        (found,) = self._thread.do(self._admin.describe_topics([topic]))
        _raise_first([found["error_code"]])
        return len(found["partitions"])

    def delete(self, topics: Iterable[str]) -> None:
        answer = self._thread.do(self._admin.delete_topics(list(topics)))
        _raise_first(each[1] for each in answer.topic_error_codes)

    def grow(self, topic: str, partitions: int) -> None:
        wanted = {topic: _aiokafka_admin.NewPartitions(partitions)}
        answer = self._thread.do(self._admin.create_partitions(wanted))
        _raise_first(each[1] for each in answer.topic_errors)

    def config_of(self, topic: str) -> dict[str, str | None]:
        return self._config(_aiokafka_resources.ConfigResourceType.TOPIC, topic)

    def broker_config(self, node_id: int) -> dict[str, str | None]:
        return self._config(_aiokafka_resources.ConfigResourceType.BROKER, str(node_id))

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        kind = _aiokafka_resources.ConfigResourceType.TOPIC
        resource = _aiokafka_resources.ConfigResource(kind, topic, configs=dict(config))
        for answer in self._thread.do(self._admin.alter_configs([resource])):
            _raise_first(each[0] for each in answer.resources)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        place = _aiokafka.TopicPartition(topic, partition)
        asked = {place: _aiokafka_admin.RecordsToDelete(before_offset)}
        return int(self._thread.do(self._admin.delete_records(asked))[place])

    def close(self) -> None:
        self._thread.do(self._admin.close())
        self._thread.close()

    def _config(self, kind: Any, name: str) -> dict[str, str | None]:
        resource = _aiokafka_resources.ConfigResource(kind, name)
        found: dict[str, str | None] = {}
        for answer in self._thread.do(self._admin.describe_configs([resource])):
            for code, _, _, _, entries in answer.resources:
                _raise_first([code])
                found |= {entry[0]: entry[1] for entry in entries}
        return found


def _addresses(brokers: Iterable[Any]) -> tuple[str, ...]:
    return tuple(f"{each['host']}:{each['port']}" for each in brokers)


def _await_all(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(TIMEOUT_S)


def _code_in(text: str) -> int:
    match = re.match(r"\[Error (\d+)\]", text)
    assert match is not None, text
    return int(match[1])


def _raise_first(codes: Iterable[int]) -> None:
    for code in codes:
        if code:
            raise _aiokafka_errors.for_code(code)


ADMINS: Final = (ConfluentAdmin, KafkaPythonAdmin, AioKafkaAdmin, HeadwaterAdmin)

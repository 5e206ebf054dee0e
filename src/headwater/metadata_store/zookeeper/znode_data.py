"""Read and write the data of znodes: the JSON of Kafka 3.x.

Readers accept older versions and ignore unknown keys, as Kafka's do. Data that cannot be read
raises `CorruptFile`: another program wrote it, and guessing its meaning could cost records.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from headwater.common.exceptions import CorruptFile, ProtocolError
from headwater.common.ids import NO_TOPIC_ID, NodeId, TopicId
from headwater.metadata.cluster_image import (
    NO_LEADER,
    BrokerEndpoint,
    BrokerRegistration,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata.ports.metadata_store import Registration

T = TypeVar("T")

NOT_WRITTEN: Final = -1
"""Partition epoch of a partition that is assigned but has no state znode yet."""

_PLAINTEXT: Final = "PLAINTEXT"
_FINALIZED: Final = 1


class TopicPartitionStateZNode(NamedTuple):
    """Data of a state znode. The partition epoch is the znode's version."""

    leader: NodeId
    leader_epoch: int
    isr: tuple[NodeId, ...]


class Assignment(NamedTuple):
    """Data of a topic's znode: the replicas of each partition."""

    topic_id: TopicId
    replicas: Mapping[int, tuple[NodeId, ...]]
    adding: Mapping[int, tuple[NodeId, ...]]
    removing: Mapping[int, tuple[NodeId, ...]]


def broker(registration: Registration, *, now_ms: int) -> bytes:
    """Return the data of a broker's znode; Kafka ignores `headwater.directory`."""
    endpoints = registration.endpoints
    plain = next((each for each in endpoints if each.security_protocol == _PLAINTEXT), None)
    written = {
        "version": 5,
        "host": None if plain is None else plain.host,
        "port": -1 if plain is None else plain.port,
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [f"{each.listener}://{_host(each)}:{each.port}" for each in endpoints],
        "listener_security_protocol_map": {
            each.listener: each.security_protocol for each in endpoints
        },
        "features": {},
    }
    if registration.rack is not None:
        written["rack"] = registration.rack
    if registration.directory_id is not None:
        written["headwater.directory"] = registration.directory_id
    return _dump(written)


def read_broker(node_id: NodeId, data: bytes, *, epoch: int) -> BrokerRegistration:
    return _reading(data, lambda found: _broker(node_id, found, epoch))


def directory_of(data: bytes) -> str | None:
    """Return the directory id of a registration, if it has one."""
    return _reading(data, lambda found: found.get("headwater.directory"))


def controller(node_id: NodeId, *, now_ms: int) -> bytes:
    return _dump(
        {
            "version": 2,
            "brokerid": node_id,
            "timestamp": str(now_ms),
            "kraftControllerEpoch": -1,
        }
    )


def read_controller(data: bytes) -> NodeId:
    return _reading(data, lambda found: NodeId(int(found["brokerid"])))


def epoch(number: int) -> bytes:
    return str(number).encode("ascii")


def read_epoch(data: bytes) -> int:
    try:
        return int(data)
    except ValueError as error:
        raise CorruptFile(f"invalid controller epoch {data[:40]!r}") from error


def topic(value: TopicImage) -> bytes:
    numbered = list(enumerate(value.partitions))
    return _dump(
        {
            "version": 3,
            "topic_id": str(value.topic_id),
            "partitions": {str(number): each.replicas for number, each in numbered},
            "adding_replicas": {str(n): each.adding for n, each in numbered if each.adding},
            "removing_replicas": {str(n): each.removing for n, each in numbered if each.removing},
        }
    )


def read_topic(data: bytes) -> Assignment:
    return _reading(data, _assignment)


def state(partition: PartitionRegistration, *, controller_epoch: int) -> bytes:
    return _dump(
        {
            "version": 1,
            "controller_epoch": controller_epoch,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "isr": partition.isr,
        }
    )


def read_state(data: bytes) -> TopicPartitionStateZNode:
    return _reading(
        data,
        lambda found: TopicPartitionStateZNode(
            NodeId(int(found["leader"])), int(found["leader_epoch"]), _nodes(found["isr"])
        ),
    )


def topic_image(
    name: str, assignment: Assignment, states: Mapping[int, tuple[TopicPartitionStateZNode, int]]
) -> TopicImage:
    """Build a topic from its znodes. `states` come with the versions of their znodes."""
    numbers = sorted(assignment.replicas)
    if numbers != list(range(len(numbers))):
        raise CorruptFile(f"the partitions of topic {name} are not numbered from 0 without gaps")
    partitions = []
    for number in numbers:
        replicas = assignment.replicas[number]
        # Only the topic's znode was created: no leader, and all replicas count as in sync.
        empty = TopicPartitionStateZNode(NO_LEADER, NOT_WRITTEN, replicas), NOT_WRITTEN
        found, version = states.get(number, empty)
        partitions.append(
            PartitionRegistration(
                replicas=replicas,
                isr=found.isr,
                leader=found.leader,
                leader_epoch=found.leader_epoch,
                partition_epoch=version,
                adding=assignment.adding.get(number, ()),
                removing=assignment.removing.get(number, ()),
            )
        )
    return TopicImage(name=name, topic_id=assignment.topic_id, partitions=tuple(partitions))


def configs(values: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "config": dict(values)})


def read_configs(data: bytes) -> dict[str, str]:
    if not data:
        # A user without configs whose client has some: Kafka 3.9 creates an empty parent.
        return {}
    return _reading(
        data, lambda found: {str(key): str(value) for key, value in found["config"].items()}
    )


def config_change(entity: str) -> bytes:
    return _dump({"version": 2, "entity_path": entity})


def read_config_change(data: bytes) -> str:
    """Return the path below /config of the changed entity."""
    return _reading(data, _changed_entity)


def cluster_id(text: str) -> bytes:
    # The version is a string here, as in Kafka 3.9.
    return _dump({"version": "1", "id": text})


def read_cluster_id(data: bytes) -> str:
    return _reading(data, lambda found: str(found["id"]))


def producer_ids(node_id: NodeId, *, start: int, end: int) -> bytes:
    """Return a block of producer ids; `end` is its last id."""
    return _dump(
        {"version": 1, "broker": node_id, "block_start": str(start), "block_end": str(end)}
    )


def read_next_producer_id(data: bytes) -> int:
    return _reading(data, lambda found: int(found["block_end"]) + 1) if data else 0


def directory_event(node_id: NodeId) -> bytes:
    """Return the notification of a failed log directory, the only kind of event."""
    return _dump({"version": 1, "broker": node_id, "event": 1})


def read_directory_event(data: bytes) -> NodeId:
    return _reading(data, lambda found: NodeId(int(found["broker"])))


def admitted(broker_epoch: int) -> bytes:
    return _dump({"version": 1, "broker_epoch": broker_epoch})


def read_admitted(data: bytes) -> int:
    return _reading(data, lambda found: int(found["broker_epoch"]))


def features(levels: Mapping[str, int]) -> bytes:
    named = {name: {"max_version_level": level} for name, level in levels.items()}
    return _dump({"version": 2, "status": _FINALIZED, "features": named})


def read_features(data: bytes) -> dict[str, int]:
    return _reading(
        data,
        lambda found: {
            str(name): int(level["max_version_level"])
            for name, level in found.get("features", {}).items()
        },
    )


def _host(endpoint: BrokerEndpoint) -> str:
    return f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host


def _broker(node_id: NodeId, found: Mapping[str, Any], epoch: int) -> BrokerRegistration:
    protocols = found.get("listener_security_protocol_map", {})
    endpoints = []
    for text in found["endpoints"]:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(
            BrokerEndpoint(
                listener=listener,
                host=host.removeprefix("[").removesuffix("]"),
                port=int(port),
                security_protocol=protocols.get(listener, listener),
            )
        )
    return BrokerRegistration(
        node_id=node_id, epoch=epoch, rack=found.get("rack"), endpoints=tuple(endpoints)
    )


def _assignment(found: Mapping[str, Any]) -> Assignment:
    topic_id = found.get("topic_id")
    return Assignment(
        NO_TOPIC_ID if topic_id is None else TopicId.parse(topic_id),
        _by_number(found["partitions"]),
        _by_number(found.get("adding_replicas", {})),
        _by_number(found.get("removing_replicas", {})),
    )


def _changed_entity(found: Mapping[str, Any]) -> str:
    if found["version"] == 1:
        return f"{found['entity_type']}/{found['entity_name']}"
    return str(found["entity_path"])


def _by_number(found: Mapping[str, Sequence[Any]]) -> dict[int, tuple[NodeId, ...]]:
    return {int(number): _nodes(replicas) for number, replicas in found.items()}


def _nodes(found: Sequence[Any]) -> tuple[NodeId, ...]:
    return tuple(NodeId(int(each)) for each in found)


def _dump(written: Mapping[str, Any]) -> bytes:
    return json.dumps(written, separators=(",", ":")).encode("utf-8")


def _reading(data: bytes, read: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        return read(json.loads(data))
    except (KeyError, TypeError, ValueError, AttributeError, ProtocolError) as error:
        raise CorruptFile(f"invalid znode data {data[:80]!r}: {error}") from error

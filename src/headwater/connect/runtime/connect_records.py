"""Records of the config, status and offset topics, in Kafka Connect's formats.

    connector-orders               {"properties": {"name": "orders", "connector.class": ...}}
    target-state-orders            {"state": "PAUSED", "state.v2": "STOPPED"}
    restart-connector-orders       {"include-tasks": true, "only-failed": false}
    logger-cluster-headwater       {"level": "DEBUG"}
    status-connector-orders        {"state": "RUNNING", "trace": null, "worker_id": ...}
    status-task-orders-0           the same
    status-topic-shop:connector-orders   {"topic": {"name": "shop", "connector": "orders", ...}}
    ["orders", {"source": "files"}]      the position, as the connector reports it

Values are JSON without schemas. Records with other keys are ignored, among them task configs, which
Kafka Connect writes and a worker of Headwater derives from the connector's config.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

_CONNECTOR: Final = "connector-"
_TARGET_STATE: Final = "target-state-"
_RESTART: Final = "restart-connector-"
_LOGGER: Final = "logger-cluster-"
_CONNECTOR_STATUS: Final = "status-connector-"
_TASK_STATUS: Final = "status-task-"
_TOPIC_STATUS: Final = "status-topic-"
_OF_CONNECTOR: Final = ":connector-"
# Kafka 3.5 and older know no STOPPED: they read `state`, newer versions `state.v2`.
_STATE: Final = "state"
_STATE_V2: Final = "state.v2"


class TargetState(StrEnum):
    """What a user wants of a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class ConnectorState(StrEnum):
    """State of a connector or a task, as the REST API shows it."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True)
class ConnectorConfigRecord:
    """A connector's config; None if it was deleted."""

    connector: str
    properties: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """A connector's target state; None if the connector was deleted."""

    connector: str
    state: TargetState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRecord:
    """A request to restart a connector."""

    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerRecord:
    """A log level for all workers of the group."""

    logger: str
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """State of a connector or a task, and the worker that has reported it."""

    state: ConnectorState
    worker_id: str
    generation: int = 0
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """Status of a connector (without `task`) or a task; None if it was deleted."""

    connector: str
    task: int | None
    status: Status | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUseRecord:
    """A topic that a connector uses; no time if the list was reset."""

    connector: str
    topic: str
    discovered_ms: int | None


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """Position of a connector in a partition of its source; None if it was reset."""

    connector: str
    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


ConnectRecord = (
    ConnectorConfigRecord
    | TargetStateRecord
    | RestartRecord
    | LoggerRecord
    | StatusRecord
    | TopicUseRecord
    | OffsetRecord
)


def encode_record(record: ConnectRecord) -> tuple[bytes, bytes | None]:
    """Return key and value; a deletion is a tombstone."""
    key, value = _encoded(record)
    return key.encode(), None if value is None else json_bytes(value)


def _encoded(record: ConnectRecord) -> tuple[str, Mapping[str, Any] | None]:
    match record:
        case ConnectorConfigRecord(connector, properties):
            value = None if properties is None else {"properties": dict(properties)}
            return f"{_CONNECTOR}{connector}", value
        case TargetStateRecord(connector, state):
            return f"{_TARGET_STATE}{connector}", None if state is None else _target_value(state)
        case RestartRecord():
            flags = {"include-tasks": record.include_tasks, "only-failed": record.only_failed}
            return f"{_RESTART}{record.connector}", flags
        case LoggerRecord(logger, level):
            return f"{_LOGGER}{logger}", {"level": level}
        case StatusRecord(connector, task, status):
            key = (
                f"{_CONNECTOR_STATUS}{connector}"
                if task is None
                else f"{_TASK_STATUS}{connector}-{task}"
            )
            return key, None if status is None else _status_value(status)
        case TopicUseRecord():
            key = f"{_TOPIC_STATUS}{record.topic}{_OF_CONNECTOR}{record.connector}"
            return key, None if record.discovered_ms is None else _topic_value(record)
        case OffsetRecord(connector, partition, offset):
            return json_bytes([connector, partition]).decode(), offset


def _target_value(state: TargetState) -> dict[str, str]:
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return {_STATE: old.value, _STATE_V2: state.value}


def _status_value(status: Status) -> dict[str, object]:
    return {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
    }


def _topic_value(record: TopicUseRecord) -> dict[str, object]:
    return {
        "topic": {
            "name": record.topic,
            "connector": record.connector,
            "task": 0,
            "discoverTimestamp": record.discovered_ms,
        }
    }


def decode_record(key: bytes | None, value: bytes | None) -> ConnectRecord | None:
    """Decode a record; None for keys that are not known. Raises `ValueError`."""
    if key is None:
        return None
    name = key.decode()
    content = None if value is None else json.loads(value)
    if content is not None and not isinstance(content, dict):
        raise ValueError(f"the value of {name} is not an object")
    try:
        return _decoded(name, content)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the record {name} is not complete: {error}") from None


def _decoded(name: str, content: dict[str, Any] | None) -> ConnectRecord | None:
    if name.startswith("["):
        return _decoded_offset(name, content)
    if (connector := _after(name, _CONNECTOR)) is not None:
        properties = None if content is None else _texts(content["properties"])
        return ConnectorConfigRecord(connector, properties)
    if (connector := _after(name, _TARGET_STATE)) is not None:
        if content is None:
            return TargetStateRecord(connector, None)
        return TargetStateRecord(connector, TargetState(content.get(_STATE_V2) or content[_STATE]))
    if (connector := _after(name, _RESTART)) is not None and content is not None:
        return RestartRecord(
            connector=connector,
            include_tasks=bool(content["include-tasks"]),
            only_failed=bool(content["only-failed"]),
        )
    if (logger := _after(name, _LOGGER)) is not None and content is not None:
        return LoggerRecord(logger, str(content["level"]))
    return _decoded_status(name, content)


def _decoded_status(name: str, content: dict[str, Any] | None) -> ConnectRecord | None:
    if (connector := _after(name, _CONNECTOR_STATUS)) is not None:
        return StatusRecord(connector, None, _status(content))
    if (task := _after(name, _TASK_STATUS)) is not None:
        connector, _, number = task.rpartition("-")
        return StatusRecord(connector, int(number), _status(content))
    if (topic := _after(name, _TOPIC_STATUS)) is not None:
        topic, _, connector = topic.partition(_OF_CONNECTOR)
        time_ms = None if content is None else int(content["topic"]["discoverTimestamp"])
        return TopicUseRecord(connector=connector, topic=topic, discovered_ms=time_ms)
    return None


def _decoded_offset(name: str, content: dict[str, Any] | None) -> OffsetRecord:
    parts = json.loads(name)
    if len(parts) != 2 or not isinstance(parts[0], str) or not isinstance(parts[1], dict):
        raise ValueError(f"the key {name} is not a connector and a partition")
    return OffsetRecord(parts[0], parts[1], content)


def _status(content: dict[str, Any] | None) -> Status | None:
    if content is None:
        return None
    return Status(
        state=ConnectorState(content["state"]),
        worker_id=str(content["worker_id"]),
        generation=int(content.get("generation") or 0),
        trace=content.get("trace"),
    )


def _after(name: str, prefix: str) -> str | None:
    return name.removeprefix(prefix) if name.startswith(prefix) else None


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in given.items() if text is not None}


def json_bytes(value: object) -> bytes:
    """Encode as compact JSON with sorted keys, so that equal keys are equal bytes."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()

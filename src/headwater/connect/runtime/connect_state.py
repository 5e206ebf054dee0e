"""Connectors of a group, as read from the config, status and offset topics."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headwater.connect.runtime.connect_records import (
    ConnectorConfigRecord,
    ConnectRecord,
    LoggerRecord,
    OffsetRecord,
    RestartRecord,
    Status,
    StatusRecord,
    TargetState,
    TargetStateRecord,
    TopicUseRecord,
    json_bytes,
)

K = TypeVar("K")
V = TypeVar("V")

Offsets = list[tuple[dict[str, Any], dict[str, Any]]]


@dataclass(slots=True)
class ConnectState:
    """The latest record of each key."""

    configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    target_states: dict[str, TargetState] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)
    task_statuses: dict[str, dict[int, Status]] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    _offsets: dict[str, dict[bytes, Mapping[str, Any]]] = field(default_factory=dict)

    def target_state(self, connector: str) -> TargetState:
        return self.target_states.get(connector, TargetState.STARTED)

    def offsets(self, connector: str) -> Offsets:
        """Partitions and offsets of a source."""
        found = self._offsets.get(connector, {})
        return [(json.loads(partition), dict(offset)) for partition, offset in found.items()]

    def offset(self, connector: str, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        found = self._offsets.get(connector, {}).get(json_bytes(partition))
        return None if found is None else dict(found)

    def replay(self, record: ConnectRecord) -> None:
        """Apply a record. Requests, such as restarts, leave no state."""
        match record:
            case ConnectorConfigRecord(connector, properties):
                _put(self.configs, connector, properties)
            case TargetStateRecord(connector, state):
                _put(self.target_states, connector, state)
            case StatusRecord(connector, None, status):
                _put(self.statuses, connector, status)
            case StatusRecord(connector, int(task), status):
                _put_below(self.task_statuses, connector, task, status)
            case TopicUseRecord():
                _put_below(self.topics, record.connector, record.topic, record.discovered_ms)
            case OffsetRecord(connector, partition, offset):
                _put_below(self._offsets, connector, json_bytes(partition), offset)
            case RestartRecord() | LoggerRecord():
                pass


def _put(values: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _put_below(values: dict[str, dict[K, V]], connector: str, key: K, value: V | None) -> None:
    below = values.setdefault(connector, {})
    _put(below, key, value)
    if not below:
        del values[connector]

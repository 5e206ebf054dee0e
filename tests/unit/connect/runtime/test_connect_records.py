"""Records of the config, status and offset topics."""

import json

import pytest

from headwater.connect.runtime.connect_records import (
    ConnectorConfigRecord,
    ConnectorState,
    ConnectRecord,
    LoggerRecord,
    OffsetRecord,
    RestartRecord,
    Status,
    StatusRecord,
    TargetState,
    TargetStateRecord,
    TopicUseRecord,
    decode_record,
    encode_record,
)
from headwater.connect.runtime.connect_state import ConnectState

STATUS = Status(state=ConnectorState.FAILED, worker_id="a:8083", generation=3, trace="why")
EVERY: list[ConnectRecord] = [
    ConnectorConfigRecord("a-b", {"name": "a-b"}),
    ConnectorConfigRecord("a", None),
    TargetStateRecord("a", TargetState.STOPPED),
    TargetStateRecord("a", None),
    RestartRecord(connector="a", include_tasks=True, only_failed=False),
    LoggerRecord("headwater.connect", "DEBUG"),
    StatusRecord("a-0", None, STATUS),
    StatusRecord("a-0", 0, STATUS),
    StatusRecord("a", 0, None),
    TopicUseRecord(connector="a:b", topic="t-1", discovered_ms=7),
    TopicUseRecord(connector="a", topic="t", discovered_ms=None),
    OffsetRecord("a", {"source": "files"}, {"name": "x"}),
    OffsetRecord("a", {"source": "files"}, None),
]


@pytest.mark.parametrize("record", EVERY, ids=str)
def test_records_survive_encoding(record: ConnectRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_keys_and_values_are_those_of_kafka_connect() -> None:
    found = [encode_record(each) for each in EVERY]
    assert [key.decode() for key, _ in found] == [
        "connector-a-b",
        "connector-a",
        "target-state-a",
        "target-state-a",
        "restart-connector-a",
        "logger-cluster-headwater.connect",
        "status-connector-a-0",
        "status-task-a-0-0",
        "status-task-a-0",
        "status-topic-t-1:connector-a:b",
        "status-topic-t:connector-a",
        '["a",{"source":"files"}]',
        '["a",{"source":"files"}]',
    ]
    values = [None if value is None else json.loads(value) for _, value in found]
    assert values[0] == {"properties": {"name": "a-b"}}
    assert values[2] == {"state": "PAUSED", "state.v2": "STOPPED"}
    assert values[4] == {"include-tasks": True, "only-failed": False}
    assert values[6] == {
        "state": "FAILED",
        "trace": "why",
        "worker_id": "a:8083",
        "generation": 3,
    }


def test_a_target_state_of_an_old_worker_is_read() -> None:
    assert decode_record(b"target-state-a", b'{"state":"PAUSED"}') == TargetStateRecord(
        "a", TargetState.PAUSED
    )


def test_records_of_kafka_connect_without_a_meaning_here_are_ignored() -> None:
    assert decode_record(b"task-a-0", b'{"properties":{}}') is None
    assert decode_record(b"commit-a", b'{"tasks":1}') is None
    assert decode_record(b"session-key", b'{"key":"x"}') is None
    assert decode_record(None, b"{}") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"connector-a", b"[]"),
        (b"connector-a", b"{}"),
        (b"connector-a", b"nonsense"),
        (b"target-state-a", b'{"state":"ASLEEP"}'),
        (b"status-task-a-x", b'{"state":"RUNNING","worker_id":"a"}'),
        (b'["a"]', b"{}"),
        (b"\xff", b"{}"),
    ],
)
def test_malformed_records_are_value_errors(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011, the message is of several parsers
        decode_record(key, value)


def test_state_has_the_latest_record_of_each_key() -> None:
    state = ConnectState()
    partition = {"source": "files"}
    for record in (
        ConnectorConfigRecord("a", {"name": "a"}),
        StatusRecord("a", None, STATUS),
        StatusRecord("a", 0, STATUS),
        TopicUseRecord(connector="a", topic="t", discovered_ms=7),
        OffsetRecord("a", partition, {"n": 1}),
        OffsetRecord("a", partition, {"n": 2}),
        TargetStateRecord("a", TargetState.PAUSED),
    ):
        state.replay(record)
    assert state.target_state("a") is TargetState.PAUSED
    assert state.offset("a", partition) == {"n": 2}
    assert state.offsets("a") == [(partition, {"n": 2})]
    for tombstone in (
        ConnectorConfigRecord("a", None),
        StatusRecord("a", None, None),
        StatusRecord("a", 0, None),
        TopicUseRecord(connector="a", topic="t", discovered_ms=None),
        OffsetRecord("a", partition, None),
        TargetStateRecord("a", None),
    ):
        state.replay(tombstone)
    assert state == ConnectState()

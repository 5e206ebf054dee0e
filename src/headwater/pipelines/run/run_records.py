"""Records of the topic that holds the state of pipeline runs.

Imports neither pyspark nor pyarrow, so that a console can read the topic without them:
`PublishedRuns.replay` takes its records in order.

One compacted topic per cluster, one partition, so that reports and requests are in order:

    key    {"kind": "run", "name": "orders"}
    value  {"version": 1, "host": "a.example", "pid": 17, "started_ms": ..., "state": ...}

    key    {"kind": "stop", "name": "orders"}
    value  {"version": 1, "started_ms": ..., "asked_ms": ...}

A run writes its report when its state changes, and at least every `HEARTBEAT_MS`. A run that died
writes nothing: `is_alive` compares the age of the last report. A stop request names the start
time of the run that it is for, so that an old request does not stop a later run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TOPIC: Final = "__headwater_pipeline_runs"
TOPIC_CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
VERSION: Final = 1

HEARTBEAT_MS: Final = 5_000
# Allows for a busy machine, a slow broker and clock differences.
DEAD_AFTER_MS: Final = 12 * HEARTBEAT_MS
ENDED: Final = frozenset({"finished", "stopped", "failed"})

_RUN: Final = "run"
_STOP: Final = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """The last report of a run, on any machine."""

    name: str
    host: str
    pid: int
    file: str
    started_ms: int
    told_ms: int
    state: str
    sinks: tuple[Mapping[str, Any], ...] = ()

    def is_alive(self, now_ms: int) -> bool:
        return self.state not in ENDED and now_ms - self.told_ms <= DEAD_AFTER_MS


@dataclass(slots=True)
class PublishedRuns:
    """The runs and stop requests of a topic, after its records were replayed in order."""

    runs: dict[str, PublishedRun] = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)
    """Start time of the run to stop, by name."""

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record. Records of other kinds and versions are ignored."""
        found = _read(key)
        kind, name = found.get("kind"), found.get("name")
        if not isinstance(name, str) or kind not in (_RUN, _STOP):
            return
        if value is None:
            (self.runs if kind == _RUN else self.stops).pop(name, None)
            return
        content = _read(value)
        if content.get("version") != VERSION:
            return
        if kind == _STOP:
            self.stops[name] = int(content["started_ms"])
        else:
            self.runs[name] = _run(name, content)

    def is_stop_requested(self, name: str, started_ms: int) -> bool:
        return self.stops.get(name) == started_ms


def run_record(run: PublishedRun) -> tuple[bytes, bytes]:
    """Return key and value of a report."""
    content = {
        "version": VERSION,
        "host": run.host,
        "pid": run.pid,
        "file": run.file,
        "started_ms": run.started_ms,
        "told_ms": run.told_ms,
        "state": run.state,
        "sinks": [dict(each) for each in run.sinks],
    }
    return _key(_RUN, run.name), _json(content)


def stop_record(run: PublishedRun, now_ms: int) -> tuple[bytes, bytes]:
    """Return key and value of a stop request."""
    content = {"version": VERSION, "started_ms": run.started_ms, "asked_ms": now_ms}
    return _key(_STOP, run.name), _json(content)


def _key(kind: str, name: str) -> bytes:
    return _json({"kind": kind, "name": name})


def _json(value: Mapping[str, Any]) -> bytes:
    # Compaction compares keys byte by byte.
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _read(content: bytes | None) -> Mapping[str, Any]:
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _run(name: str, content: Mapping[str, Any]) -> PublishedRun:
    return PublishedRun(
        name=name,
        host=str(content.get("host", "")),
        pid=int(content.get("pid", 0)),
        file=str(content.get("file", "")),
        started_ms=int(content.get("started_ms", 0)),
        told_ms=int(content.get("told_ms", 0)),
        state=str(content.get("state", "")),
        sinks=tuple(content.get("sinks") or ()),
    )

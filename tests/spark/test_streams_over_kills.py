"""Streams that are killed and restarted give the results of the plain Python reference.

`headwater pipeline run` processes random events, some of them late, and is killed with SIGKILL,
including JVM and workers, whenever it has written a little more.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.client import Producer
from headwater.pipelines.run.run_files import is_running, report
from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read
from tests.spark.stream_reference import (
    Event,
    Window,
    batches_of,
    sessions,
    totals,
    tumbling,
)

TIMEOUT_S = 900
EVENTS = 600
USERS = ("ada", "bob", "eve", "joe", "kim")
MINUTE_MS = 60_000
FIRST_MS = 1_767_225_600_000

PIPELINE = """\
version: 1
name: killed
checkpoint: ./ck
sources:
  events:
    subscribe: events
    startingOffsets: earliest
    maxOffsetsPerTrigger: 60
    decode: {value: {json: "user string, at timestamp, amount bigint"}}
    watermark: {at: 2 minutes}
  raw:
    subscribe: events
    startingOffsets: earliest
    maxOffsetsPerTrigger: 60
    decode: {value: {json: "user string, at timestamp, amount bigint"}}
steps:
  windows:
    sql: |
      select user, unix_millis(window.start) as start_ms, count(*) as count, sum(amount) as amount
      from events group by user, window(at, '1 minute')
  visits:
    sql: |
      select user, unix_millis(session_window.start) as start_ms, count(*) as count,
             sum(amount) as amount
      from events group by user, session_window(at, '40 seconds')
  totals: {sql: "select user, sum(amount) as total from raw group by user"}
sinks:
  - {name: windows, from: windows, topic: windows, key: user, delivery: exactly-once,
     create: {partitions: 2}, trigger: {every: 100ms}}
  - {name: visits, from: visits, topic: visits, key: user, delivery: exactly-once,
     create: {partitions: 2}, trigger: {every: 100ms}}
  - {name: totals, from: totals, topic: totals, key: user, delivery: exactly-once, mode: update,
     create: {partitions: 2}, trigger: {every: 100ms}}
  - {name: copies, from: raw, topic: copies, value: "concat(user, ':', amount)",
     delivery: exactly-once, create: {partitions: 2}, trigger: {every: 100ms}}
"""


class Run:
    """A pipeline in its own process group."""

    def __init__(self, folder: Path, broker: EmbeddedBroker, *options: str) -> None:
        self._runs = folder / "runs"
        self._output = (folder / "output").open("ab")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "headwater", "pipeline", "run", *options),
                *("--runs", str(self._runs), "-b", broker.bootstrap_servers),
                str(folder / "killed.yaml"),
            ],
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )

    def batches(self) -> int:
        """Number of batches that its sinks have reported since this run started."""
        if not is_running(self._runs, "killed"):
            return 0
        told = report(self._runs, "killed")
        if told.pid != self._process.pid:
            return 0
        return sum(int(each["batch"] or 0) for each in told.sinks)

    def ends_within(self, seconds: float) -> bool:
        """Poll rarely, since the machine is busy."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def kill(self) -> None:
        """Kill everything: Python, the JVM and the workers."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(TIMEOUT_S)
        self._output.close()

    def end(self) -> int:
        code = self._process.wait(TIMEOUT_S)
        self._output.close()
        return code


def random_events(rng: random.Random, count: int) -> dict[int, list[Event]]:
    """Two partitions of events in random order, one in twenty far too late."""
    log: dict[int, list[Event]] = {0: [], 1: []}
    for number in range(count):
        now_ms = FIRST_MS + number * 2_000
        behind_ms = rng.choice([0] * 10 + [30_000] * 6 + [90_000] * 3 + [20 * MINUTE_MS])
        event = Event(
            user=rng.choice(USERS),
            at_ms=max(FIRST_MS, now_ms - rng.randrange(behind_ms + 1)),
            amount=rng.randrange(1, 100),
        )
        log[rng.randrange(2)].append(event)
    return log


def sent(broker: EmbeddedBroker, log: dict[int, list[Event]]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, events in log.items():
            for event in events:
                at = datetime.fromtimestamp(event.at_ms / 1000, UTC).isoformat()
                value = json.dumps({"user": event.user, "at": at, "amount": event.amount})
                producer.send("events", value.encode(), partition=partition)


def windows_in(broker: EmbeddedBroker, topic: str) -> list[Window]:
    return sorted(
        (Window(**json.loads(each.value or b"")) for each in read(broker, topic)),
        key=lambda each: (each.user, each.start_ms),
    )


def in_order(windows: list[Window]) -> list[Window]:
    return sorted(windows, key=lambda each: (each.user, each.start_ms))


def run_and_kill(folder: Path, broker: EmbeddedBroker, batches: int) -> int:
    """Run until this many batches are reported; return the number at the end."""
    run = Run(folder, broker)
    try:
        until_s = time.monotonic() + TIMEOUT_S
        while run.batches() < batches:
            assert time.monotonic() < until_s
            assert not run.ends_within(0.2), (folder / "output").read_text(errors="replace")
        return run.batches()
    finally:
        run.kill()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_streams_give_the_results_of_the_reference(tmp_path: Path) -> None:
    log = random_events(random.Random(20261116), EVENTS)
    (tmp_path / "killed.yaml").write_text(PIPELINE, encoding="utf-8")
    checkpoint = tmp_path / "ck" / "killed"
    with EmbeddedBroker() as broker:
        make(broker, "events")
        sent(broker, log)
        done = 0
        for _ in range(3):
            done = run_and_kill(tmp_path, broker, done + 6)
        assert Run(tmp_path, broker, "--once").end() == 0
        batches = list(batches_of(checkpoint / "windows", "events", log))
        assert sum(len(each.events) for each in batches) == EVENTS
        expected = tumbling(batches, size_ms=MINUTE_MS, delay_ms=2 * MINUTE_MS)
        assert windows_in(broker, "windows") == in_order(expected)
        batches = list(batches_of(checkpoint / "visits", "events", log))
        expected = sessions(batches, gap_ms=40_000, delay_ms=2 * MINUTE_MS)
        assert windows_in(broker, "visits") == in_order(expected)
        batches = list(batches_of(checkpoint / "totals", "events", log))
        written: dict[str, list[int]] = {}
        for each in read(broker, "totals"):
            row = json.loads(each.value or b"")
            written.setdefault(row["user"], []).append(row["total"])
        assert written == totals(batches)
        copies = sorted((each.value or b"").decode() for each in read(broker, "copies"))
        assert copies == sorted(f"{e.user}:{e.amount}" for events in log.values() for e in events)

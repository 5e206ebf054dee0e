"""Connect workers that are killed: another one continues, and no row is lost or copied twice."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headwater.client import Admin, Consumer, NewTopic, TopicPartition
from headwater.testing import EmbeddedBroker
from tests.connect_worker import WorkerProcess, eventually

pytestmark = pytest.mark.slow

PARTITIONS = 3
FILES_PER_ROUND = 8
ROWS_PER_FILE = 500


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


def add_files(folder: Path, first: int) -> int:
    """Add files with ascending ids; return the next id."""
    for _ in range(FILES_PER_ROUND):
        rows = range(first, first + ROWS_PER_FILE)
        text = "".join(json.dumps({"id": each, "name": f"n{each}"}) + "\n" for each in rows)
        hidden = folder / f".{first:08}.json"
        hidden.write_text(text)
        hidden.rename(folder / f"{first:08}.json")
        first += ROWS_PER_FILE
    return first


def exported(folder: Path) -> Counter[int]:
    files = [each for each in folder.glob("*.json") if not each.name.startswith(".")]
    lines = [line for each in files for line in each.read_text().splitlines()]
    return Counter(json.loads(line)["id"] for line in lines)


def imported(servers: str, topic: str) -> Counter[int]:
    """Ids of all committed records of a topic."""
    found: Counter[int] = Counter()
    with Consumer({"bootstrap.servers": servers, "isolation.level": "read_committed"}) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            found.update(json.loads(each.value or b"")["id"] for each in consumer.poll(1))
    return found


def test_a_standby_worker_takes_over_and_every_row_is_copied_once(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    drop, lake = tmp_path / "in", tmp_path / "out"
    drop.mkdir()
    lake.mkdir()
    servers = broker.bootstrap_servers
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topics([NewTopic(name="orders", partitions=PARTITIONS)])
    source = {
        "connector.class": "FilesSource",
        "topic": "orders",
        "key": "id",
        "path": str(drop),
        "format": "json",
        "maxFilesPerTrigger": "1",
        "poll.interval.ms": "50",
    }
    sink = {
        "connector.class": "FilesSink",
        "topics": "orders",
        "schema": "id bigint, name string",
        "path": str(lake),
        "format": "json",
        "batch.max.records": "200",
    }
    with ExitStack() as workers:
        active = workers.enter_context(WorkerProcess(servers, "group"))
        assert active.ask("PUT", "/connectors/in/config", source).status == 201
        assert active.ask("PUT", "/connectors/out/config", sink).status == 201
        active.wait_for_state("in", "RUNNING")
        active.wait_for_state("out", "RUNNING")
        count = 0
        for _ in range(3):
            standby = workers.enter_context(WorkerProcess(servers, "group"))
            assert sorted(standby.get("/connectors")) == ["in", "out"]
            before = len(exported(lake))
            count = add_files(drop, count)
            # Somewhere within the copy of these files.
            eventually(lambda: len(exported(lake)) > before, lambda: active.log_text)  # noqa: B023
            active.kill()
            eventually(
                lambda: len(exported(lake)) == count,  # noqa: B023
                lambda: standby.log_text,  # noqa: B023
            )
            status = standby.get("/connectors/in/status")
            assert status["tasks"][0]["worker_id"] == standby.worker_id
            active = standby
        expected = Counter(range(count))
        assert imported(servers, "orders") == expected
        assert exported(lake) == expected
        assert "Traceback" not in active.log_text, active.log_text


def processes_of(pid: int) -> list[int]:
    """A process and all that it has started."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(each.parent.name)] = int(fields[1])
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found


def test_a_worker_that_was_frozen_and_replaced_writes_nothing_any_more(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    drop, lake = tmp_path / "in", tmp_path / "out"
    drop.mkdir()
    lake.mkdir()
    servers = broker.bootstrap_servers
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topics([NewTopic(name="orders", partitions=PARTITIONS)])
    source = {
        "connector.class": "FilesSource",
        "topic": "orders",
        "path": str(drop),
        "format": "json",
        "maxFilesPerTrigger": "1",
        "poll.interval.ms": "50",
    }
    sink = {
        "connector.class": "FilesSink",
        "topics": "orders",
        "schema": "id bigint, name string",
        "path": str(lake),
        "format": "json",
        "batch.max.records": "200",
    }
    with WorkerProcess(servers, "group") as frozen, WorkerProcess(servers, "group") as standby:
        # A change at the standby is carried out by the active worker.
        assert standby.ask("PUT", "/connectors/in/config", source).status == 201
        assert standby.ask("PUT", "/connectors/out/config", sink).status == 201
        for name in ("in", "out"):
            status = standby.wait_for_state(name, "RUNNING")
            assert status["tasks"][0]["worker_id"] == frozen.worker_id
        count = add_files(drop, 0)
        eventually(lambda: exported(lake), lambda: frozen.log_text)
        stopped = processes_of(frozen.pid)
        for each in stopped:
            os.kill(each, signal.SIGSTOP)
        try:
            eventually(lambda: len(exported(lake)) == count, lambda: standby.log_text)
        finally:
            for each in stopped:
                os.kill(each, signal.SIGCONT)
        eventually(lambda: "standing by" in frozen.log_text, lambda: frozen.log_text)
        eventually(lambda: len(processes_of(frozen.pid)) <= 2, lambda: frozen.log_text)
        count = add_files(drop, count)
        eventually(lambda: len(exported(lake)) == count, lambda: standby.log_text)
        expected = Counter(range(count))
        assert imported(servers, "orders") == expected
        assert exported(lake) == expected
        for worker in (frozen, standby):
            for name in ("in", "out"):
                status = worker.wait_for_state(name, "RUNNING")
                assert status["tasks"][0]["worker_id"] == standby.worker_id


def test_a_worker_that_is_started_elsewhere_continues_and_deletes_nothing(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    drop = tmp_path / "in"
    drop.mkdir()
    servers = broker.bootstrap_servers
    source = {"connector.class": "FilesSource", "topic": "orders", "path": str(drop)}
    config = {**source, "format": "json", "poll.interval.ms": "50"}
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topics([NewTopic(name="orders", partitions=PARTITIONS)])
    count = add_files(drop, 0)
    with WorkerProcess(servers, "group") as first:
        first.ask("PUT", "/connectors/in/config", config)
        first.ask("PUT", "/connectors/paused/config", {**config, "topic": "other"})
        first.ask("PUT", "/connectors/paused/pause")
        first.wait_for_state("paused", "PAUSED")
        eventually(lambda: len(imported(servers, "orders")) == count, lambda: first.log_text)
        first.stop()
    count = add_files(drop, count)
    with WorkerProcess(servers, "group") as second:
        second.wait_for_state("in", "RUNNING")
        second.wait_for_state("paused", "PAUSED")
        eventually(lambda: len(imported(servers, "orders")) == count, lambda: second.log_text)
        assert imported(servers, "orders") == Counter(range(count))

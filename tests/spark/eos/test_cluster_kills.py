"""Exactly-once on a standalone cluster of two workers while its processes are killed.

Killed with SIGKILL: a worker of the cluster (its executor ends with it), a Python worker, an
executor whose Python goes on as a zombie and commits late, the driver after a task has committed
and before Spark has, and the broker. A verifier counts every row. That the zombie was fenced and
that repeated parts of batches were skipped is seen, too.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.client import Producer
from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker
from tests.spark.eos.faults import VARIABLE, Fault, Faults, Point, Victim
from tests.spark.eos.job import Job
from tests.spark.eos.killing import ROOT, ROWS, prepare, run_module, run_to_the_end
from tests.spark.pipelines import make, read
from tests.spark.standalone import Standalone, executor_logs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

FAULTS = (
    Fault(victim=Victim.WORKER, point=Point.WRITING, batch=1),
    Fault(victim=Victim.CLUSTER_WORKER, point=Point.COMMITTED, batch=2),
    Fault(victim=Victim.EXECUTOR, point=Point.WRITING, batch=3),
    Fault(victim=Victim.JVM, point=Point.COMMITTED, batch=4),
    Fault(victim=Victim.BROKER, point=Point.WRITING, batch=5),
)
SKIPPED = re.compile(r"Skipped a part of a batch that is written already: batch=(\d+)")
RUNS_MAX = 8
ORDERS = 1_000
FIRST_MS = 1_767_225_600_000
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Standalone, Path]]:
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("standalone")
    with Standalone(folder) as started:
        yield started, folder


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


def settings(faults: Faults) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        f"spark.executorEnv.{VARIABLE}": faults.to_text(),
    }


def skips_in(folder: Path) -> Counter[int]:
    """By batch id, how often executors have logged that they skipped a part of a batch."""
    return Counter(int(found) for found in SKIPPED.findall(executor_logs(folder)))


def expect_fencing_and_skips(faults: Faults, skips: Counter[int]) -> None:
    """The zombie's commit was refused, and repeated parts of batches were not written again."""
    assert faults.refusal is not None, "the task without an executor was not refused"
    assert "Fenced" in faults.refusal or "Epoch" in faults.refusal, faults.refusal
    # The worker and the driver were killed after one task of these batches had committed.
    assert (skips[2] > 0, skips[4] > 0) == (True, True), skips
    print(f"fenced: {faults.refusal}")
    print(f"skipped parts of batches: {dict(sorted(skips.items()))}")


def test_every_row_of_a_program_arrives_once(
    cluster: tuple[Standalone, Path], broker: EmbeddedBroker, tmp_path: Path
) -> None:
    standalone, folder = cluster
    skipped_before = skips_in(folder)
    faults = Faults(tmp_path, FAULTS)
    job = Job(
        brokers=broker.bootstrap_servers,
        source="from-cluster",
        target="to-cluster",
        group="group-cluster",
        checkpoint=f"file://{tmp_path}/checkpoint",
        is_shuffled=True,
        master=standalone.url,
        conf=settings(faults),
    )
    prepare(broker, job)
    outcome = run_to_the_end(broker, job, faults, standalone)
    print(f"\n{outcome}")
    assert (outcome.once, outcome.more_than_once, outcome.missing) == (ROWS, 0, 0), outcome
    expect_fencing_and_skips(faults, skips_in(folder) - skipped_before)


def pipeline(broker: EmbeddedBroker, master: str, checkpoint: Path, faults: Faults) -> str:
    """A join, windows and a copy. JSON is YAML."""

    def source(topic: str, column: str) -> dict[str, object]:
        return {
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": ORDERS // 8,
            "decode": {"value": {"json": f"id bigint, {column} timestamp"}},
            "watermark": {column: "30 minutes"},
        }

    def sink(name: str, of: str) -> dict[str, object]:
        every = {"available_now": True}
        return {
            "name": name, "from": of, "topic": name, "delivery": "exactly-once", "trigger": every,
            "create": {"partitions": 2},
        }  # fmt: skip

    joined = (
        "select id, unix_millis(at) as at_ms, unix_millis(paid_at) as paid_ms from orders "
        "join (select id as paid_id, paid_at from payments) on id = paid_id "
        "and paid_at between at and at + interval 10 minutes"
    )
    windows = (
        "select unix_millis(window.start) as start_ms, count(*) as count from orders "
        "group by window(at, '5 minutes')"
    )
    return json.dumps(
        {
            "version": 1,
            "name": "killed",
            "bootstrap": broker.bootstrap_servers,
            "checkpoint": f"file://{checkpoint}",
            "session": {"master": master, "conf": settings(faults)},
            "sources": {
                "orders": source("orders", "at"),
                "payments": source("payments", "paid_at"),
            },
            "steps": {"paid": {"sql": joined}, "windows": {"sql": windows}},
            "sinks": [
                sink("paid", "paid"),
                sink("windows", "windows"),
                sink("copies", "orders"),
            ],
            "on_error": {"restart": {"max": 3, "backoff": "1s"}},
        }
    )


def at_ms(number: int) -> int:
    return FIRST_MS + number * 6_000


def send_orders(broker: EmbeddedBroker, numbers: range, late_ms: int = 0) -> None:
    """Orders and their payments, of which every third is too late for the join."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in numbers:
            ordered_ms = at_ms(number) + late_ms
            paid_ms = ordered_ms + (11 if number % 3 == 0 else 5) * MINUTE_MS
            for topic, column, when_ms in (
                ("orders", "at", ordered_ms),
                ("payments", "paid_at", paid_ms),
            ):
                when = datetime.fromtimestamp(when_ms / 1000, UTC).isoformat()
                value = json.dumps({"id": number, column: when}).encode()
                producer.send(topic, value, partition=number % 2)


def test_every_row_of_a_pipeline_with_join_and_windows_arrives_once(
    cluster: tuple[Standalone, Path], broker: EmbeddedBroker, tmp_path: Path
) -> None:
    standalone, folder = cluster
    skipped_before = skips_in(folder)
    faults = Faults(tmp_path, FAULTS)
    file = tmp_path / "killed.yaml"
    file.write_text(pipeline(broker, standalone.url, tmp_path / "ck", faults), encoding="utf-8")
    make(broker, "orders", "payments")
    send_orders(broker, range(ORDERS))
    words = ["tests.spark.eos.pipeline_driver", "pipeline", "run", str(file)]
    words += ["--runs", str(tmp_path / "runs")]

    def run() -> int:
        for count in range(1, RUNS_MAX):
            code, _ = run_module(words, broker, faults, standalone)
            if code == 0:
                return count
        raise AssertionError((tmp_path / "job.log").read_text()[-5000:])

    runs = run()
    missed = [str(fault) for fault in FAULTS if not faults.has_struck(fault)]
    assert not missed, missed
    # A later event closes all windows of the events before it.
    for number in (0, 1):
        send_orders(broker, range(ORDERS + number, ORDERS + number + 1), late_ms=24 * 3_600_000)
        run()
    copies = Counter(json.loads(each.value or b"")["id"] for each in read(broker, "copies"))
    assert copies == Counter(range(ORDERS + 2))
    paid = Counter(json.loads(each.value or b"")["id"] for each in read(broker, "paid"))
    assert paid == Counter(number for number in range(ORDERS + 2) if number % 3)
    size_ms = 5 * MINUTE_MS
    expected = Counter(at_ms(number) // size_ms * size_ms for number in range(ORDERS))
    found = [json.loads(each.value or b"") for each in read(broker, "windows")]
    assert sorted((each["start_ms"], each["count"]) for each in found) == sorted(expected.items())
    print(f"\n{ORDERS} orders through a join and windows: {runs} runs")
    expect_fencing_and_skips(faults, skips_in(folder) - skipped_before)

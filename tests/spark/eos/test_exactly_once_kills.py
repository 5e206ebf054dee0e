"""Exactly-once delivery with a real broker while processes are killed: `make test-eos`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.process.java import NoJava, find_java
from headwater.testing import EmbeddedBroker
from tests.spark.eos.faults import Fault, Faults, Point, Victim
from tests.spark.eos.job import Job
from tests.spark.eos.killing import (
    PARTITIONS,
    ROWS,
    Outcome,
    group_offsets,
    prepare,
    run_to_the_end,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

# Each with the batch in which it happens, of ten; the last one is hit when all rows are written.
FAULTS = {
    "a task fails before its commit": (Victim.TASK, Point.WRITING, 1),
    "a task fails after its commit": (Victim.TASK, Point.COMMITTED, 2),
    "a worker is killed while it writes": (Victim.WORKER, Point.WRITING, 3),
    "a worker is killed when it has committed": (Victim.WORKER, Point.COMMITTED, 4),
    "the broker is killed while a task writes": (Victim.BROKER, Point.WRITING, 5),
    "the broker is killed when a task has committed": (Victim.BROKER, Point.COMMITTED, 6),
    "the JVM is killed while a task writes": (Victim.JVM, Point.WRITING, 7),
    "the JVM is killed when a task has committed": (Victim.JVM, Point.COMMITTED, 8),
    "the driver fails in its commit": (Victim.DRIVER, Point.COMMITTED, 9),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    with EmbeddedBroker() as started:
        yield started


def run(
    broker: EmbeddedBroker, folder: Path, label: str, names: list[str], *, is_shuffled: bool
) -> Outcome:
    faults = Faults(folder, tuple(_fault(name) for name in names))
    job = Job(
        brokers=broker.bootstrap_servers,
        source=f"from-{label}",
        target=f"to-{label}",
        group=f"group-{label}",
        checkpoint=str(folder / "checkpoint"),
        is_shuffled=is_shuffled,
    )
    prepare(broker, job)
    outcome = run_to_the_end(broker, job, faults)
    assert list(group_offsets(broker, job).values()) == [ROWS // PARTITIONS] * PARTITIONS
    return outcome


def _fault(name: str) -> Fault:
    victim, point, batch = FAULTS[name]
    return Fault(victim=victim, point=point, batch=batch)


def test_every_row_arrives_once_whatever_is_killed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """One fault after the other, in one query with a shuffle."""
    outcome = run(broker, tmp_path, "all", list(FAULTS), is_shuffled=True)
    print("\nIn one query, batch by batch:")
    for name, (_, _, batch) in FAULTS.items():
        print(f"  batch {batch}: {name}")
    print(outcome)
    assert (outcome.once, outcome.more_than_once, outcome.missing) == (ROWS, 0, 0), outcome
    assert outcome.runs == 4, "the JVM twice, the driver once; the others are survived"


@pytest.mark.parametrize("name", FAULTS)
def test_every_row_arrives_once_even_if(broker: EmbeddedBroker, tmp_path: Path, name: str) -> None:
    label = str(_fault(name))
    outcome = run(broker, tmp_path, label, [name], is_shuffled=False)
    print(f"\n{name}, in batch {FAULTS[name][2]}: {outcome}")
    assert (outcome.once, outcome.more_than_once, outcome.missing) == (ROWS, 0, 0), outcome

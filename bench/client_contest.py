"""What clients that read or send are compared by: sizes, rounds, goals, the limit of the machine.

A contender is a run that returns records a second. What a reader would get wrong: beside the goals
stands what this machine can do at all, with requests that were written beforehand and answers that
nobody looks into. Where a goal lies above that, it is the machine that misses it. A client may get
a little more than all of it: it receives in one thread and works in another.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bench.harness import Bench, in_turn

ROUNDS: Final = 3
# A size of values, and by how much less of them there are.
SIZES: Final = ((100, 1), (1_024, 4))

AIOKAFKA_GOAL: Final = 2.0
KAFKA_PYTHON_GOAL: Final = 5.0
CONFLUENT_GOAL: Final = 3.0

Run = Callable[[], float]


class Goal(NamedTuple):
    """One contender shall be so many times as fast as another."""

    label: str
    against: str
    times: float


def compare(
    bench: Bench,
    size_bytes: int,
    contenders: Mapping[str, Run],
    goals: tuple[Goal, ...],
    *,
    limited: str,
    limit: str,
) -> None:
    """Let all run in turn, and hold the medians to the goals and one of them to the limit."""
    rates = {
        label: statistics.median(found) for label, found in in_turn(contenders, ROUNDS).items()
    }
    for label, rate in rates.items():
        bench.record(f"{label}, {size_bytes} B", rate, "records/s")
    for goal in goals:
        bench.record(
            f"{goal.label}, {size_bytes} B, times {goal.against}",
            rates[goal.label] / rates[goal.against],
            "x",
            compared_with=goal.against,
            at_least=goal.times,
        )
    bench.record(
        f"{limited}, {size_bytes} B: share of the limit",
        rates[limited] / rates[limit],
        "",
        compared_with=limit,
    )


def rate(began: float, count: int) -> float:
    return count / (time.perf_counter() - began)

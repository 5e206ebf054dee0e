"""Compare clients: sizes, rounds, goals and the limit of the machine.

A contender is a function that returns records per second.

Note: besides the goals, the limit of this machine is measured, with prebuilt requests and responses
that are not decoded. If a goal is above the limit, the machine is what misses it. A client may
slightly exceed the limit, because it receives in one thread and works in another.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bench.harness import Bench, in_turn

ROUNDS: Final = 3
# Value size, and the divisor of the number of records.
SIZES: Final = ((100, 1), (1_024, 4))

AIOKAFKA_GOAL: Final = 2.0
KAFKA_PYTHON_GOAL: Final = 5.0
CONFLUENT_GOAL: Final = 3.0

Run = Callable[[], float]


class Goal(NamedTuple):
    """Goal: one contender is at least `times` as fast as another."""

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
    """Run all contenders in turn, and compare the medians with the goals and the limit."""
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

"""Run as many seeds as fit into some minutes, over all simulators, in a few processes.

    python -m tests.simulation.night --minutes 30

Every night starts at other seeds. Simulators get equal time, whatever a seed of each takes.
Failures are printed as commands that replay them.
"""

import argparse
import logging
import multiprocessing
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.simulation.catalog import named, replay_command

_SEEDS_PER_NIGHT = 1_000_000
_MOST_FAILURES = 5


@dataclass(slots=True)
class Shift:
    """Results of one process."""

    seeds: Counter[str] = field(default_factory=Counter)
    spent_us: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def work(part: str, first_seed: int, stride: int, deadline_s: float) -> Shift:
    """Run seed after seed until the time is over, or too much has failed."""
    logging.getLogger("headwater").setLevel(logging.CRITICAL)
    simulators = named(part)
    shift = Shift()
    next_seed = dict.fromkeys(simulators, first_seed)
    while time.monotonic() < deadline_s and len(shift.failures) < _MOST_FAILURES:
        name = min(simulators, key=lambda each: shift.spent_us[each])
        seed = next_seed[name]
        next_seed[name] += stride
        began_s = time.monotonic()
        outcome = simulators[name](seed)
        # Never 0, or one simulator would be chosen forever.
        shift.spent_us[name] += max(1, round(1_000_000 * (time.monotonic() - began_s)))
        shift.seeds[name] += 1
        if outcome.failure is not None:
            shift.failures.append(replay_command(name, seed))
            print(f"{outcome.failure}\n{name}, seed {seed} FAILED", flush=True)
    return shift


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.night",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("simulator", nargs="?", default="", help="a name, or a part of some")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="where to begin; else the day decides")
    options = parser.parse_args(arguments)
    seed = options.seed
    if seed is None:
        seed = (int(time.time()) // 86_400) * _SEEDS_PER_NIGHT
    print(f"{options.minutes:g} minutes from seed {seed} on, {options.processes} processes")
    # All processes of a machine share this clock.
    deadline_s = time.monotonic() + 60 * options.minutes
    with ProcessPoolExecutor(
        options.processes, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        begun = [
            pool.submit(work, options.simulator, seed + number, options.processes, deadline_s)
            for number in range(options.processes)
        ]
        shifts = [each.result() for each in begun]
    return _told(options.simulator, shifts)


def _told(part: str, shifts: list[Shift]) -> int:
    for name in named(part):
        print(f"{sum(shift.seeds[name] for shift in shifts):8} seeds of {name}")
    failures = [failure for shift in shifts for failure in shift.failures]
    for failure in failures:
        print(f"FAILED; again with: {failure}")
    if not failures:
        print("every check held")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

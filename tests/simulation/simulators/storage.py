"""The storage engine on a disk that loses and tears writes, driven by one integer.

    python -m tests.simulation.simulators.storage --seed 7             one run
    python -m tests.simulation.simulators.storage --seed 1 --seeds 50  fifty runs
    python -m tests.simulation.simulators.storage --seed 7 --trace     every step

The same seed gives the same run, whatever the hash seed: a failing seed is a bug report.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import traceback
from dataclasses import dataclass

from tests.simulation.worlds.log_model import Restart
from tests.simulation.worlds.storage_steps import StorageSteps

DEFAULT_STEPS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    restarts: dict[Restart, int]
    failure: str | None

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:12]


def run(seed: int, *, steps: int = DEFAULT_STEPS, print_steps: bool = False) -> Outcome:
    """Run one seed."""
    life = StorageSteps(seed)
    trace: list[str] = []
    failure: str | None = None
    try:
        for number in range(steps):
            said = life.step()
            trace.append(f"{number:4} {said}")
            if print_steps:
                print(trace[-1], flush=True)
        life.finish()
    except Exception:  # noqa: BLE001, whatever the engine raises is the finding
        failure = traceback.format_exc()
    return Outcome(seed=seed, trace=trace, restarts=life.world.restarts, failure=failure)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.simulators.storage", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS)
    parser.add_argument("--trace", action="store_true", help="print every step")
    options = parser.parse_args(arguments)
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = run(seed, steps=options.steps, print_steps=options.trace)
        ends = ", ".join(f"{count} x {how.value}" for how, count in outcome.restarts.items())
        print(f"seed {seed}: {len(outcome.trace)} steps, {ends}, trace {outcome.digest}")
        if outcome.failure is not None:
            print("\n".join(outcome.trace[-12:]))
            print(outcome.failure)
            print(
                f"seed {seed} FAILED; python -m tests.simulation.simulators.storage --seed "
                f"{seed} --trace"
            )
            return 1
    print("every check held")
    return 0


if __name__ == "__main__":
    sys.exit(main())

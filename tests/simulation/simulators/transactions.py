"""Transactions under crashes, zombies and a lossy network, driven by one integer.

    python -m tests.simulation.simulators.transactions --seed 7             one run
    python -m tests.simulation.simulators.transactions --seed 1 --seeds 50  fifty runs
    python -m tests.simulation.simulators.transactions --seed 7 --trace     every step

The same seed gives the same run, whatever the hash seed: a failing seed is a bug report.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import traceback
from dataclasses import dataclass

from tests.simulation.worlds.transaction_checks import Knowledge, check_all
from tests.simulation.worlds.transaction_world import TransactionLives

DEFAULT_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    knowledge: Knowledge
    failure: str | None

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:12]


def run(seed: int, *, lasting_ms: int = DEFAULT_MS) -> Outcome:
    """Run one seed, end the faults, and check the result."""
    lives = TransactionLives(seed)
    failure: str | None = None
    try:
        lives.run(lasting_ms)
        check_all(lives.knowledge())
    except Exception:  # noqa: BLE001, whatever is raised is the finding
        failure = traceback.format_exc()
    return Outcome(seed=seed, trace=lives.world.trace, knowledge=lives.knowledge(), failure=failure)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.simulators.transactions", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--ms", type=int, default=DEFAULT_MS, help="how long, in virtual time")
    parser.add_argument("--trace", action="store_true", help="print every step")
    options = parser.parse_args(arguments)
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = run(seed, lasting_ms=options.ms)
        if options.trace:
            print("\n".join(outcome.trace))
        print(f"seed {seed}: {outcome.knowledge.summary()}, trace {outcome.digest}")
        if outcome.failure is not None:
            print(outcome.failure)
            print(
                f"seed {seed} FAILED; python -m tests.simulation.simulators.transactions "
                f"--seed {seed} --trace"
            )
            return 1
    print("every check held")
    return 0


if __name__ == "__main__":
    sys.exit(main())

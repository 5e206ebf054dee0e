"""Run simulators from one integer.

    python -m tests.simulation --seed 7                    all of them
    python -m tests.simulation groups --seed 7             those with `groups` in their name
    python -m tests.simulation offsets --seed 1 --seeds 50
    python -m tests.simulation offsets --seed 7 --trace    every step

The same seed gives the same run, whatever the hash seed: a failing seed is a bug report.
"""

import argparse
import hashlib
import logging
import sys

from tests.simulation.catalog import SIMULATORS, Simulator, named, replay_command

_TOLD_STEPS = 25


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("simulator", nargs="?", default="", help="a name, or a part of some")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--trace", action="store_true", help="print every step")
    options = parser.parse_args(arguments)
    chosen = named(options.simulator)
    if not chosen:
        parser.error(f"no simulator {options.simulator!r}; there are {', '.join(SIMULATORS)}")
    for name, simulator in chosen.items():
        for seed in range(options.seed, options.seed + options.seeds):
            if not lived(name, simulator, seed, shows_trace=options.trace):
                return 1
    print("every check held")
    return 0


def lived(name: str, simulator: Simulator, seed: int, *, shows_trace: bool) -> bool:
    outcome = simulator(seed)
    if shows_trace:
        print("\n".join(outcome.trace))
    digest = hashlib.sha256("\n".join(outcome.trace).encode()).hexdigest()[:12]
    print(f"{name}, seed {seed}: {len(outcome.trace)} steps, trace {digest}", flush=True)
    if outcome.failure is None:
        return True
    if not shows_trace:
        print("\n".join(outcome.trace[-_TOLD_STEPS:]))
    print(outcome.failure)
    print(f"FAILED; again with: {replay_command(name, seed)}")
    return False


if __name__ == "__main__":
    # Brokers log failing disks and appends all the time here.
    logging.getLogger("headwater").setLevel(logging.CRITICAL)
    sys.exit(main())

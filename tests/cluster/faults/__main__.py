"""Inject faults into a real cluster for some minutes, and check its guarantees.

    python -m tests.cluster.faults --minutes 10
    python -m tests.cluster.faults --minutes 10 --seed 7    the same faults again
    python -m tests.cluster.faults --zookeeper              on ZooKeeper instead of a KRaft quorum

Violations are printed at the end; the brokers' folders and logs are kept then.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.cluster.faults.fault_plan import Store
from tests.cluster.faults.trial import Outcome, Trial
from tests.zookeeper_server import absence

_TOLD_STALLS = 5


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--zookeeper", action="store_true")
    options = parser.parse_args(arguments)
    store = Store.ZOOKEEPER if options.zookeeper else Store.KRAFT
    reason = absence() if options.zookeeper else None
    if reason is not None:
        parser.error(reason)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="headwater-faults-"))
    print(f"seed {seed}, {options.minutes:g} minutes on {store.value}, in {folder}", flush=True)
    trial = Trial(folder, lambda line: print(line, flush=True), store)
    outcome = trial.run(seed, options.minutes * 60)
    _tell(outcome)
    if outcome.violations:
        zookeeper = " ZOOKEEPER=1" if options.zookeeper else ""
        print(f"FAILED; the same faults again with: make test-faults SEED={seed}{zookeeper}")
        print(f"the brokers' folders and logs are in {folder}")
        return 1
    shutil.rmtree(folder)
    print("every promise was kept")
    return 0


def _tell(outcome: Outcome) -> None:
    done = ", ".join(f"{count} x {kind}" for kind, count in sorted(outcome.faults.items()))
    print(f"faults: {done}; {outcome.restarts} restarts of brokers")
    print(
        f"{outcome.acknowledged} records acknowledged, {outcome.seen} seen along the way, "
        f"{outcome.commits} commits of a group"
    )
    fates = ", ".join(f"{count} {fate.value}" for fate, count in outcome.transactions.items())
    print(f"transactions: {fates}")
    if outcome.sent_again:
        print(f"{outcome.sent_again} records were sent again by librdkafka under a new epoch")
    for seconds, fault in sorted(outcome.stalls_s, reverse=True)[:_TOLD_STALLS]:
        print(f"stall of {seconds:.1f} s: {fault}")
    for each in outcome.violations:
        print(f"  {each}")


if __name__ == "__main__":
    sys.exit(main())

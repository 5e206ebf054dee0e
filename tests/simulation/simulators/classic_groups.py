"""Classic groups under faults, driven by one integer.

    python -m tests.simulation.simulators.classic_groups --seed 7             one run
    python -m tests.simulation.simulators.classic_groups --seed 1 --seeds 50  fifty runs
    python -m tests.simulation.simulators.classic_groups --seed 7 --trace     every step

Members join, leave, crash, are slow and return; messages are lost, repeated and late; appends fail
and the coordinator crashes. Then the faults end, and within bounded time every live member must own
its share, every partition must have one owner, and the group must have no other members.

The same seed gives the same run, whatever the hash seed: a failing seed is a bug report.
"""

import argparse
import hashlib
import random
import sys
import traceback
from dataclasses import dataclass

from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from tests.simulation.fakes.classic_consumer import (
    PARTITIONS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicConsumer,
)
from tests.simulation.fakes.virtual_time import CALM, STORM, VirtualTime
from tests.simulation.worlds.classic_coordinator import ClassicCoordinator

DEFAULT_STEPS = 60
LIMITS = ClassicLimits(initial_rebalance_delay_ms=1_000, new_member_join_timeout_ms=15_000)
MEMBERS_MAX = 5
SETTLING_MS = 6 * (REBALANCE_MS + SESSION_MS) + 60_000
VERSIONS = (1, 3, 4, 5, 8, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    syncs: int
    fences: int
    crashes: int
    failure: str | None

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:12]


class ClassicLife:
    def __init__(self, seed: int) -> None:
        self.rand = random.Random(seed)
        self.time = VirtualTime(self.rand, weather=STORM)
        self.coordinator = ClassicCoordinator(self.time, LIMITS)
        self.consumers: list[ClassicConsumer] = []
        self.groups = ["eager", "cooperative", "eager-too"][: self.rand.randint(2, 3)]
        self._names = 0

    def step(self) -> None:
        deeds = [
            self._start_one,
            self._start_one,
            self._start_one,
            self._stop_one,
            self._kill_one,
            self._kill_one,
            self._rejoin_one,
            self._double_one,
            self.coordinator.crash,
        ]
        self.rand.choice(deeds)()
        self.time.run_for(self.rand.choice((50, 1_000, 5_000, 12_000, 40_000)))

    def finish(self) -> None:
        """The faults are over: groups become stable, and each partition has one owner."""
        self.time.weather = CALM
        # A join of a dead process may still be in flight and replace a live static member; that is
        # then fenced for good, and another has to be started.
        self.time.run_for(SETTLING_MS)
        for group_id in self.groups:
            if not self._living(group_id):
                self._start_in(group_id, instance=None)
        self.time.run_for(SETTLING_MS)
        # If a static member dies when it was to give up partitions, its replacement does not know
        # that, and no member rejoins. In Kafka too this lasts until the next rebalance; so start
        # one.
        for group_id in self.groups:
            for consumer in self._living(group_id)[:1]:
                consumer.rejoin()
        self.time.run_for(SETTLING_MS)
        for group_id in self.groups:
            self._check_settled(group_id)

    def _check_settled(self, group_id: str) -> None:
        living = self._living(group_id)
        group = self.coordinator.groups[group_id]
        assert group.state_name == "Stable", group.describe()
        members = sorted(member.member_id for member in group.members)
        assert members == sorted(consumer.member_id for consumer in living)
        for consumer in living:
            assert consumer.is_settled
            assert consumer.generation == group.generation
        owned = sorted(partition for consumer in living for partition in consumer.owned)
        assert owned == list(range(PARTITIONS)), f"{group_id}: {owned}"
        assert not self.coordinator.waiting

    def _living(self, group_id: str) -> list[ClassicConsumer]:
        return [one for one in self.consumers if one.is_alive and one.group_id == group_id]

    def _start_one(self) -> None:
        group_id = self.rand.choice(self.groups)
        if len(self._living(group_id)) < MEMBERS_MAX:
            taken = [one.instance for one in self._living(group_id)]
            free = [name for name in ("i1", "i2", "i3") if name not in taken]
            is_static = bool(free) and self.rand.random() < 0.4
            self._start_in(group_id, instance=self.rand.choice(free) if is_static else None)

    def _double_one(self) -> None:
        """A second process with the instance id of a live one."""
        static = [one for one in self.consumers if one.is_alive and one.instance]
        if static:
            first = self.rand.choice(static)
            self._start_in(first.group_id, instance=first.instance)

    def _start_in(self, group_id: str, instance: str | None) -> None:
        self._names += 1
        versions = [version for version in VERSIONS if instance is None or version >= 5]
        consumer = ClassicConsumer(
            self.time,
            self.coordinator,
            name=f"c{self._names}",
            group_id=group_id,
            version=self.rand.choice(versions),
            instance=instance,
            is_cooperative=group_id == "cooperative",
            preference=self.rand.randrange(3),
        )
        self.consumers.append(consumer)
        self.time.say(f"{consumer.name} starts in {group_id} as {instance}, v{consumer.version}")
        consumer.start()

    def _stop_one(self) -> None:
        living = [one for one in self.consumers if one.is_alive]
        if living:
            consumer = self.rand.choice(living)
            self.time.say(f"{consumer.name} stops")
            consumer.stop()

    def _kill_one(self) -> None:
        living = [one for one in self.consumers if one.is_alive]
        if living:
            consumer = self.rand.choice(living)
            self.time.say(f"{consumer.name} dies")
            consumer.die()
            if consumer.instance is not None and self.rand.random() < 0.7:
                self._start_in(consumer.group_id, consumer.instance)

    def _rejoin_one(self) -> None:
        living = [one for one in self.consumers if one.is_alive]
        if living:
            consumer = self.rand.choice(living)
            consumer.preference += self.rand.randrange(2)
            self.time.say(f"{consumer.name} rejoins with preference {consumer.preference}")
            consumer.rejoin()


def run(seed: int, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Run one seed."""
    life = ClassicLife(seed)
    failure: str | None = None
    try:
        for _ in range(steps):
            life.step()
        life.finish()
    except Exception:  # noqa: BLE001, whatever a group raises is the finding
        failure = traceback.format_exc()
    watch = life.coordinator.watch
    return Outcome(
        seed=seed,
        trace=life.time.trace,
        syncs=watch.syncs,
        fences=watch.fences,
        crashes=life.coordinator.life,
        failure=failure,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.simulators.classic_groups",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS)
    parser.add_argument("--trace", action="store_true", help="print every step")
    options = parser.parse_args(arguments)
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = run(seed, steps=options.steps)
        if options.trace:
            print("\n".join(outcome.trace))
        print(
            f"seed {seed}: {outcome.syncs} syncs, {outcome.fences} fenced, "
            f"{outcome.crashes} crashes, trace {outcome.digest}"
        )
        if outcome.failure is not None:
            print("\n".join(outcome.trace[-12:]))
            print(outcome.failure)
            print(
                f"seed {seed} FAILED; python -m tests.simulation.simulators.classic_groups "
                f"--seed {seed} --trace"
            )
            return 1
    print("every check held")
    return 0


if __name__ == "__main__":
    sys.exit(main())

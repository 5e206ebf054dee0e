"""Partitions on several brokers: crashes, cut links and elections, from one integer.

    python -m tests.simulation.simulators.replication --seed 7             one run
    python -m tests.simulation.simulators.replication --seed 1 --seeds 50  fifty runs
    python -m tests.simulation.simulators.replication --seed 7 --trace     every event

The same seed gives the same run: a failing seed is a bug report.

Note: the guarantee is not that nothing is ever lost. Records that all ISR members acknowledged
survive while at least one of them neither lost power nor is down when one that did is. So the
script spares the last of them.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import traceback
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import NO_LEADER
from tests.simulation.fakes.virtual_time import CALM, Weather
from tests.simulation.labs.broker_lab import Sent
from tests.simulation.worlds.replica_nodes import ReplicaNode
from tests.simulation.worlds.replica_world import ReplicaWorld, outcome
from tests.simulation.worlds.replication_checks import ReplicationChecks, values_of

STORM: Final = Weather(loss=0.02, delay=0.05)
DEFAULT_STEPS: Final = 400
_STEP_MS: Final = 30
_COMPARE_EVERY: Final = 10
_SESSION_MS: Final = 600
_REST_MS: Final = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    acknowledged: int
    failure: str | None

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:12]


class ReplicationLife:
    """The run of one seed."""

    def __init__(self, seed: int) -> None:
        self.checks = ReplicationChecks()
        brokers = 3 + seed % 3
        self.world = ReplicaWorld(
            seed,
            brokers=brokers,
            configs={"min.insync.replicas": str(1 + seed % 2), "segment.bytes": "1048576"},
            weather=STORM,
            partitions=1 + seed % 4,
        )
        self.rng = self.world.time.rand
        self.trace: list[str] = []
        # Brokers that lost power and have not been in the ISR of a partition since.
        self._wiped: dict[tuple[int, NodeId], None] = {}
        self._unanswered: dict[bytes, tuple[int, Sent]] = {}
        self._values = 0
        self.world.controller.granted = self._granted

    def step(self) -> None:
        for _ in range(self.rng.randrange(3)):
            self._produce()
        match self.rng.randrange(24):
            case 0 | 1:
                self._crash()
            case 2 | 3:
                self._restart()
            case 4:
                self._cut()
            case 5 | 6:
                self.world.network.heal()
            case 7:
                self._elect()
            case 8:
                self._lose_session()
            case 9 | 10:
                self._consume()
            case _:
                pass
        self.world.run(self.rng.randint(1, _STEP_MS))
        self._collect_responses()
        self.checks.look(self.world)

    def finish(self) -> None:
        """The faults are over, and the cluster becomes idle."""
        world = self.world
        world.time.weather = CALM
        world.network.heal()
        for node in world.nodes:
            if not node.is_up:
                self._start(node)
        world.run(_REST_MS)
        self._collect_responses()
        world.controller.elect_if_possible()
        last = [self._send_to_leader(number) for number in range(world.partitions)]
        world.run(_REST_MS)
        for sent in last:
            assert outcome(sent).error_code is ErrorCode.NONE, outcome(sent)
        self.checks.finish(world)

    def _send_to_leader(self, number: int) -> Sent:
        leader = self.world.nodes[self.world.controller.state_of(number).leader]
        return self.world.produce(b"the last one", to=leader, number=number)

    def say(self, text: str) -> None:
        controller = self.world.controller
        states = map(controller.state_of, range(self.world.partitions))
        lines = [f"{each.leader}/{each.leader_epoch} of {each.isr}" for each in states]
        self.trace.append(f"{self.world.time.now_ms - 1_000_000:7} {text}; {', '.join(lines)}")

    # Clients.

    def _produce(self) -> None:
        number = self.rng.randrange(self.world.partitions)
        leader = self.world.controller.state_of(number).leader
        # Some producers do not know the latest leader.
        target = self.rng.choice(self.world.nodes) if self.rng.random() < 0.2 else None
        if target is None and leader != NO_LEADER:
            target = self.world.nodes[leader]
        if target is None or not target.is_up:
            return
        self._values += 1
        value = b"%d" % self._values
        acks = -1 if self.rng.random() < 0.8 else 1
        sent = self.world.produce(value, to=target, acks=acks, number=number)
        if acks == -1:
            self._unanswered[value] = number, sent

    def _collect_responses(self) -> None:
        for value, (number, sent) in list(self._unanswered.items()):
            if sent.is_answered:
                del self._unanswered[value]
                answer = outcome(sent)
                if not answer.error_code:
                    self.checks.acknowledged[number, answer.base_offset] = value

    def _consume(self) -> None:
        node = self.rng.choice(self.world.nodes)
        number = self.rng.randrange(self.world.partitions)
        if node.is_up and node.find(number) is not None:
            data = self.world.fetch(node, 0, number=number)
            if data.records and not data.error_code:
                assert isinstance(data.records, memoryview)
                values = values_of(bytes(data.records))
                self.checks.note_seen(number, values, f"a consumer of {node.node_id}")

    # Faults of brokers.

    def _crash(self) -> None:
        node = self.rng.choice(self.world.nodes)
        loses_power = self.rng.random() < 0.5
        if not node.is_up or not self._may_crash(node, loses_power=loses_power):
            return
        node.crash(loses_power=loses_power)
        if loses_power:
            for number in range(self.world.partitions):
                self._wiped[number, node.node_id] = None
        self.say(f"{node.node_id} {'loses power' if loses_power else 'dies'}")
        life = node.life
        self.world.time.after(_SESSION_MS, lambda: self._notice(node, life))

    def _may_crash(self, node: ReplicaNode, *, loses_power: bool) -> bool:
        return all(
            self._may_lose(node, number, loses_power=loses_power)
            for number in range(self.world.partitions)
        )

    def _may_lose(self, node: ReplicaNode, number: int, *, loses_power: bool) -> bool:
        isr = self.world.controller.state_of(number).isr
        others = [self.world.nodes[each] for each in isr if each != node.node_id]
        if any(each.is_up and (number, each.node_id) not in self._wiped for each in others):
            return True
        return not loses_power and not any((number, each) in self._wiped for each in isr)

    def _notice(self, node: ReplicaNode, life: int) -> None:
        if node.life == life and node.node_id in self.world.controller.image.brokers:
            self.world.controller.notice_death(node.node_id)
            self.world.controller.elect_if_possible()
            self.say(f"{node.node_id} is known to be dead")

    def _restart(self) -> None:
        down = [node for node in self.world.nodes if not node.is_up]
        if down:
            self._start(self.rng.choice(down))

    def _start(self, node: ReplicaNode) -> None:
        controller = self.world.controller
        if node.node_id in controller.image.brokers:
            # It returned before its session timed out: the new session ends the old one.
            controller.notice_death(node.node_id)
        controller.start(node)
        controller.elect_if_possible()
        self.say(f"{node.node_id} starts")

    def _cut(self) -> None:
        node = self.rng.choice(self.world.nodes)
        if self.rng.random() < 0.5:
            self.world.network.isolate(node.node_id)
            self.say(f"{node.node_id} is isolated")
        else:
            other = self.rng.choice(self.world.nodes)
            if other is not node:
                self.world.network.cut_one_way(node.node_id, other.node_id)
                self.say(f"{node.node_id} does not reach {other.node_id}")

    def _elect(self) -> None:
        controller = self.world.controller
        number = self.rng.randrange(self.world.partitions)
        isr = controller.state_of(number).isr
        alive = [each for each in isr if each in controller.image.brokers]
        if alive:
            controller.elect(self.rng.choice(alive), number=number)
            self.say(f"an election of {number}")

    def _lose_session(self) -> None:
        node = self.rng.choice(self.world.nodes)
        if node.is_up and self._may_crash(node, loses_power=False):
            self.world.controller.lose_session(node)
            self.world.controller.elect_if_possible()
            self.say(f"{node.node_id} lost its session")

    def _granted(self, number: int, isr: tuple[NodeId, ...]) -> None:
        # Counted before it is committed: one that was in the ISR already may be dead unnoticed.
        for node_id in isr:
            is_new = node_id not in self.world.controller.state_of(number).isr
            if is_new and self.world.nodes[node_id].is_up:
                self._wiped.pop((number, node_id), None)
        self.say(f"proposed ISR of {number}: {isr}")


def run(seed: int, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Run one seed."""
    life = ReplicationLife(seed)
    failure: str | None = None
    try:
        for number in range(steps):
            life.step()
            if number % _COMPARE_EVERY == 0:
                life.checks.compare(life.world)
        life.finish()
    except Exception:  # noqa: BLE001, whatever the code under test raises is the finding
        failure = traceback.format_exc()
    return Outcome(
        seed=seed, trace=life.trace, acknowledged=len(life.checks.acknowledged), failure=failure
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.simulators.replication", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS)
    parser.add_argument("--trace", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    for seed in range(options.seed, options.seed + options.seeds):
        outcome_ = run(seed, steps=options.steps)
        if options.trace:
            print("\n".join(outcome_.trace))
        print(
            f"seed {seed}: {len(outcome_.trace)} events, {outcome_.acknowledged} acknowledged, "
            f"trace {outcome_.digest}"
        )
        if outcome_.failure is not None:
            print("\n".join(outcome_.trace[-12:]))
            print(outcome_.failure)
            print(
                f"seed {seed} FAILED; python -m tests.simulation.simulators.replication "
                f"--seed {seed} --trace"
            )
            return 1
    print("every check held")
    return 0


if __name__ == "__main__":
    sys.exit(main())

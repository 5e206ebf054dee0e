"""The KRaft quorum from one integer: elections, replication, snapshots, changes of the voter set.

    python -m tests.simulation quorum --seed 7
    python -m tests.simulation.simulators.quorum --seed 1 --seeds 1000    also prints mean events
    python -m tests.simulation.simulators.quorum --seed 7 --trace

Replicas crash and lose what they had not synced, lose their disks, have clocks that run too fast or
too slow, are cut off one way or both ways; messages are lost, repeated and delayed for longer than
every timeout.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import traceback
from collections import Counter
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    Listener,
)
from headwater.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from headwater.protocol.older_versions import Message
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import ReplicaKey, VoterSet
from tests.simulation.fakes.virtual_time import CALM, Weather
from tests.simulation.worlds.quorum_world import (
    CLUSTER_ID,
    LISTENER,
    QuorumNode,
    QuorumWorld,
)

DEFAULT_STEPS: Final = 90
# Timeouts that are no longer than a few messages: most elections have several candidates.
HASTY: Final = QuorumConfig(
    election_timeout_ms=60,
    election_backoff_max_ms=60,
    fetch_timeout_ms=300,
    request_timeout_ms=200,
)
_REST_MS: Final = 2_000
_MOST_RESTS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None when every check held."""

    seed: int
    trace: list[str]
    events: int
    decisions: int
    epochs: int
    committed: int
    voter_changes: int
    snapshots: int
    failure: str | None


class QuorumLife:
    """One seed's story."""

    def __init__(self, seed: int, *, is_wild: bool = False) -> None:
        kraft_version = 0 if seed % 4 == 0 else 1
        voters = (1, 3, 3, 4, 5, 2, 3)[seed % 7]
        if is_wild:
            voters = 3 + 2 * (seed % 2)
        self.world = QuorumWorld(
            seed,
            kraft_version,
            voters,
            0 if kraft_version == 0 else seed % 3,
            (seed // 3) % 2,
            has_files=seed % 5 == 0,
        )
        world = self.world
        world.encodes = seed % 8 == 1
        self.rand = world.time.rand
        world.time.weather = Weather(
            loss=self.rand.choice((0.0, 0.01, 0.05, 0.2)),
            delay=self.rand.choice((0.0, 0.005, 0.05)),
        )
        world.repeat = self.rand.choice((0.0, 0.02, 0.2))
        world.slow_sync = self.rand.choice((0.0, 0.0, 0.01))
        # A calm story has long reigns, a wild one little but elections.
        self.wildness = self.rand.choice((0.15, 0.4, 0.8))
        world.crash_after_effect = self.rand.choice((0.0, 0.0, 0.001, 0.005))
        world.crash_after_vote = self.rand.choice((0.0, 0.1, 0.3))
        if is_wild:
            self.wildness = 0.8
            world.crash_after_effect, world.crash_after_vote = 0.005, 0.3
            world.config = HASTY
        # Voters that find the leader's address refusing connections, rightly or wrongly.
        self.doubts = self.rand.choice((0.05, 0.3, 0.8)) if seed % 5 == 2 else 0.0
        self.voter_changes = 0
        self.snapshots = 0
        self.acknowledged: dict[int, OffsetAndEpoch] = {}
        self._values = 0
        for node in world.nodes.values():
            node.clock_rate = self.rand.choice((1.0, 1.0, 0.9, 1.1, 0.7, 1.3))
            node.start()

    # Steps

    def step(self) -> None:
        for _ in range(self.rand.randrange(3)):
            self._append()
        if self.rand.random() < self.wildness:
            self._mischief()
        if self.doubts and self.rand.random() < self.doubts:
            self._doubt()
        self.world.time.run_for(self.rand.choice((5, 30, 100, 400, 1_500)))

    def _mischief(self) -> None:
        action = self.rand.randrange(20)
        match action:
            case 0 | 1 | 2:
                self._crash()
            case 3 | 4 | 5:
                self._restart()
            case 6 | 7:
                self._cut()
            case 8 | 9 | 10:
                self._heal()
            case 11 | 12 | 13:
                self._change_voters()
            case 14 | 15:
                self._take_snapshot()
            case 16 | 17:
                self._clean_log()
            case 18:
                self._resign()
            case _:
                self._wipe()

    def finish(self) -> None:
        """Heal everything; the quorum must elect a leader and commit, unless it lost a majority."""
        world = self.world
        world.time.weather = CALM
        world.repeat = world.slow_sync = 0.0
        world.crash_after_effect = world.crash_after_vote = 0.0
        world.cut.clear()
        for node in world.nodes.values():
            if not node.is_up:
                node.start()
        world.time.run_for(_REST_MS)
        has_appended = False
        for _ in range(_MOST_RESTS):
            leader = self._leader()
            if leader is not None and not has_appended:
                has_appended = leader.append(b"the last one") is not None
            world.time.run_for(_REST_MS)
            if has_appended and leader is not None and not self._lagging(leader):
                return
        leader = self._leader()
        if leader is None and not self._can_elect():
            self.world.say("no majority is left")
            return
        assert leader is not None, "no leader after everything healed"
        assert has_appended, "the leader takes no records"
        raise AssertionError(f"not caught up after everything healed: {self._lagging(leader)}")

    def _lagging(self, leader: QuorumNode) -> list[str]:
        assert leader.client is not None
        end = leader.client.end.offset
        return [
            f"{node.key} has applied {node.applied_end} of {end}"
            for node in self.world.nodes.values()
            if node.applied_end != end
        ]

    def _can_elect(self) -> bool:
        """Whether some replica could win: a voter with a majority of disks no newer than its own.

        A leader that removed itself may be the only one with the uncommitted VotersRecord. It is no
        voter by its own log, and where its vote is needed no one is elected; as in Kafka.
        """
        nodes = self.world.nodes.values()
        for node in nodes:
            client = node.client
            if client is None or not client.voters.is_voter(node.key):
                continue
            votes = sum(
                1
                for each in nodes
                if each.client is not None
                and client.voters.is_voter(each.key)
                and client.end.is_at_least(each.client.end)
            )
            if votes >= client.voters.majority:
                return True
        return False

    def _latest_voters(self) -> VoterSet:
        clients = [node.client for node in self.world.nodes.values() if node.client is not None]
        best = max(clients, key=lambda each: (each.end.epoch, each.end.offset), default=None)
        return VoterSet() if best is None else best.voters

    def _leader(self) -> QuorumNode | None:
        leaders = [
            node
            for node in self.world.nodes.values()
            if node.client is not None and node.client.is_leader
        ]
        return max(
            leaders,
            key=lambda node: 0 if node.client is None else node.client.leader_and_epoch.epoch,
            default=None,
        )

    # What happens

    def _append(self) -> None:
        nodes = list(self.world.nodes.values())
        # An old leader that does not know of its successor takes records too.
        node = self.rand.choice(nodes) if self.rand.random() < 0.3 else self._leader()
        if node is None:
            return
        self._values += 1
        node.append(b"%d" % self._values)

    def _crash(self) -> None:
        node = self.rand.choice(list(self.world.nodes.values()))
        if node.is_up:
            node.crash()
            self.world.say(f"{node.node_id} crashes; its log ends at {node.log.end_offset}")

    def _restart(self) -> None:
        down = [node for node in self.world.nodes.values() if not node.is_up]
        if down:
            node = self.rand.choice(down)
            if self.world.kraft_version == 1 and self.rand.random() < 0.2:
                node.port += 1
            node.clock_rate = self.rand.choice((1.0, 1.0, 0.9, 1.1, 0.7, 1.3))
            node.start()
            self.world.say(f"{node.node_id} starts")

    def _cut(self) -> None:
        ids = list(self.world.nodes)
        victim = self.rand.choice(ids)
        if self.rand.random() < 0.5:
            other = self.rand.choice(ids)
            self.world.cut[victim, other] = None
            self.world.say(f"{victim} does not reach {other}")
            return
        side = [each for each in ids if self.rand.random() < 0.5]
        for one in ids:
            for other in ids:
                if (one in side) != (other in side):
                    self.world.cut[one, other] = None
        self.world.say(f"the network parts into {side} and the others")

    def _heal(self) -> None:
        self.world.cut.clear()
        self.world.say("the network heals")

    def _resign(self) -> None:
        leader = self._leader()
        if leader is not None and leader.client is not None:
            epoch = leader.client.leader_and_epoch.epoch
            assert leader.driver is not None
            leader.driver.resign(epoch)
            self.world.say(f"{leader.node_id} resigns")

    def _doubt(self) -> None:
        node = self.rand.choice(list(self.world.nodes.values()))
        if node.driver is not None:
            leader = node.driver.client.leader_and_epoch
            self.world.say(f"{node.node_id} finds that {leader.leader_id} refuses connections")
            node.driver.leader_refused(leader)

    def _take_snapshot(self) -> None:
        node = self.rand.choice(list(self.world.nodes.values()))
        if node.take_snapshot():
            self.snapshots += 1
            self.world.say(f"{node.node_id} takes a snapshot at {node.applied_end}")

    def _clean_log(self) -> None:
        node = self.rand.choice(list(self.world.nodes.values()))
        if node.clean_log():
            self.world.say(f"{node.node_id} deletes its log up to {node.log.start_offset}")

    def _wipe(self) -> None:
        """Replace a disk. With kraft.version 0 that breaks promises, as in Kafka."""
        if self.world.kraft_version == 0:
            return
        down = [node for node in self.world.nodes.values() if not node.is_up]
        if not down:
            return
        node = self.rand.choice(down)
        voters = self._known_voters()
        lost = [key for key in voters.keys if key.directory_id != self._key_of(key.id).directory_id]
        # A quorum that has lost its majority for good has no more stories to tell.
        if voters.is_voter(node.key) and (lost or len(voters) < 3):
            return
        node.wipe()
        self.world.say(f"{node.node_id} loses its disk")

    def _known_voters(self) -> VoterSet:
        return self._latest_voters()

    def _key_of(self, node_id: int) -> ReplicaKey:
        return self.world.nodes[node_id].key

    def _change_voters(self) -> None:
        leader = self._leader()
        if leader is None or leader.client is None or self.world.kraft_version == 0:
            return
        voters = leader.client.voters
        outside = [
            node
            for node in self.world.nodes.values()
            if not node.is_broker and node.node_id not in voters.ids
        ]
        if outside and self.rand.random() < 0.6:
            node = self.rand.choice(outside)
            request: Message = AddRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                timeout_ms=1_000,
                voter_id=node.node_id,
                voter_directory_id=node.key.directory_id,
                listeners=(Listener(name=LISTENER, host=f"node-{node.node_id}", port=node.port),),
            )
            text = f"add voter {node.node_id}"
        elif len(voters) > 1:
            key = self.rand.choice(voters.keys)
            request = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=key.id, voter_directory_id=key.directory_id
            )
            text = f"remove voter {key.id}"
        else:
            return
        self.world.say(f"{text} of {voters.ids} asked of {leader.node_id}")

        def answered(response: Message | None) -> None:
            assert isinstance(response, AddRaftVoterResponse | RemoveRaftVoterResponse)
            self.world.say(f"{text}: {response.error_code.name}")
            if response.error_code is ErrorCode.NONE:
                self.voter_changes += 1

        self.world.call(leader, request, answered)


def run(seed: int, *, steps: int = DEFAULT_STEPS, is_wild: bool = False) -> Outcome:
    """Run one seed. A wild run has more voters, more crashes and little but elections."""
    life: QuorumLife | None = None
    failure: str | None = None
    try:
        life = QuorumLife(seed, is_wild=is_wild)
        for _ in range(steps):
            life.step()
        life.finish()
    except Exception:  # noqa: BLE001, whatever the code under test raises is the finding
        failure = traceback.format_exc()
    if life is None:
        return Outcome(
            seed=seed,
            trace=[],
            events=0,
            decisions=0,
            epochs=0,
            committed=0,
            voter_changes=0,
            snapshots=0,
            failure=failure,
        )
    world = life.world
    return Outcome(
        seed=seed,
        trace=world.trace,
        events=world.time.event_count,
        decisions=world.decisions,
        epochs=max(world.checks.leaders, default=0),
        committed=len(world.checks.committed) - 1,
        voter_changes=life.voter_changes,
        snapshots=life.snapshots,
        failure=failure,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.simulators.quorum",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS)
    parser.add_argument("--trace", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    totals: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = run(seed, steps=options.steps)
        if options.trace:
            print("\n".join(outcome.trace))
        if options.seeds == 1:
            digest = hashlib.sha256("\n".join(outcome.trace).encode()).hexdigest()[:12]
            print(
                f"seed {seed}: {outcome.events} events, {outcome.epochs} epochs, "
                f"{outcome.committed} batches committed, trace {digest}"
            )
        if outcome.failure is not None:
            print("\n".join(outcome.trace[-25:]))
            print(outcome.failure)
            print(f"seed {seed} FAILED; make sim SIM=quorum SEED={seed}")
            return 1
        totals.update(
            seeds=1,
            events=outcome.events,
            decisions=outcome.decisions,
            epochs=outcome.epochs,
            committed=outcome.committed,
            voter_changes=outcome.voter_changes,
            snapshots=outcome.snapshots,
            seeds_with_voter_changes=int(outcome.voter_changes > 0),
        )
    count = totals["seeds"]
    means = ", ".join(
        f"{totals[each] / count:.1f} {each.replace('_', ' ')}"
        for each in ("events", "decisions", "epochs", "committed", "voter_changes", "snapshots")
    )
    print(f"{count} seeds, {totals['seeds_with_voter_changes']} with voter changes")
    print(f"mean per seed: {means}")
    print("every check held")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The active controller on the quorum, from one integer.

    python -m tests.simulation active-controller --seed 7

Controllers crash, lose what was not synced and are cut off; brokers restart, stall and stop. Each
committed image must be the same on all replicas, have a live leader in each ISR that has a live
member, and contain what was acknowledged.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from headwater.common.ids import NO_EPOCH
from headwater.controller.alter_partition import alter_partition
from headwater.controller.topic_changes import delete_topics
from headwater.controller.topic_creation import Results, create_topics
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest
from headwater.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.fakes.virtual_time import CALM, Weather
from tests.simulation.labs.cluster_lab import ALL_RIGHTS, STATIC, topic
from tests.simulation.worlds.active_controller_world import (
    SESSION_MS,
    ActiveControllerWorld,
    ControllerNode,
    SimulatedBroker,
    comparable,
)
from tests.simulation.worlds.quorum_checks import CheckFailed

DEFAULT_STEPS: Final = 80
_BROKERS: Final = 4
_FIRST_BROKER: Final = 10
_REST_MS: Final = 2_000
_MOST_RESTS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None when every check held."""

    seed: int
    trace: list[str]
    events: int
    registrations: int
    acknowledged: int
    failovers: int
    failure: str | None


class ActiveControllerLife:
    """One seed's story."""

    def __init__(self, seed: int) -> None:
        voters = (1, 3, 3, 5)[seed % 4]
        self.world = ActiveControllerWorld(
            seed, 1, voters, 0, 0, has_files=seed % 5 == 0, node_class=ControllerNode
        )
        self.rand = self.world.time.rand
        self.world.time.weather = Weather(
            loss=self.rand.choice((0.0, 0.01, 0.1)), delay=self.rand.choice((0.0, 0.01))
        )
        self.world.slow_sync = self.rand.choice((0.0, 0.0, 0.01))
        self.world.crash_after_effect = self.rand.choice((0.0, 0.0, 0.001))
        self.brokers = [
            SimulatedBroker(self.world, _FIRST_BROKER + number) for number in range(_BROKERS)
        ]
        self.created: dict[str, None] = {}
        self.asked_to_delete: dict[str, None] = {}
        self.deleted: dict[str, None] = {}
        self._topics = 0
        for node in self.world.controllers:
            node.clock_rate = self.rand.choice((1.0, 1.0, 0.9, 1.1))
            node.start()
        for broker in self.brokers:
            broker.start()

    # Steps

    def step(self) -> None:
        for _ in range(self.rand.randrange(3)):
            self._create()
        action = self.rand.randrange(16)
        match action:
            case 0 | 1 | 2:
                self._restart_all()
            case 3:
                self._delete()
            case 4 | 5 | 6 | 7:
                self._alter_partition()
            case 8:
                self._crash_or_restart_controller()
            case 9:
                self._cut_or_heal()
            case 10 | 11:
                self._crash_or_restart_broker()
            case 12:
                broker = self.rand.choice(self.brokers)
                broker.is_stalled = not broker.is_stalled
                self.world.say(f"broker {broker.node_id} stalled: {broker.is_stalled}")
            case 13:
                self.rand.choice(self.brokers).wants_to_stop = True
            case _:
                pass
        self.world.time.run_for(self.rand.choice((5, 30, 200, 700, SESSION_MS + 1_000)))

    def _create(self) -> None:
        self._topics += 1
        name = f"t{self._topics}"
        request = CreateTopicsRequest(
            topics=(topic(name, self.rand.randint(1, 3), self.rand.randint(1, 3)),)
        )
        random = SeededRandom(self.rand)

        def created(results: Results) -> None:
            if not results[0].error_code:
                self.created[name] = None
                self.world.say(f"created {name}")

        for node in self._believed_active():
            assert node.active is not None
            node.active.event_queue.submit(
                partial(create_topics, request=request, static=STATIC, rng=random),
                then=created,
                on_error=_ignore,
            )

    def _delete(self) -> None:
        names = [each for each in self.created if each not in self.asked_to_delete]
        if not names:
            return
        name = self.rand.choice(names)
        request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),))

        def deleted(results: tuple[DeletableTopicResult, ...]) -> None:
            if not results[0].error_code:
                self.deleted[name] = None
                self.world.say(f"deleted {name}")

        for node in self._believed_active():
            assert node.active is not None
            self.asked_to_delete[name] = None
            node.active.event_queue.submit(
                partial(delete_topics, request=request, authorization=ALL_RIGHTS),
                then=deleted,
                on_error=_ignore,
            )

    def _alter_partition(self) -> None:
        """A leader proposes another ISR, by the image that it knows."""
        for node in self._believed_active():
            assert node.active is not None
            image = node.active.event_queue.image
            if not image.topics:
                return
            found = self.rand.choice(list(image.topics.values()))
            number = self.rand.randrange(len(found.partitions))
            partition = found.partitions[number]
            leader = image.brokers.get(partition.leader)
            if leader is None:
                return
            others = [each for each in partition.replicas if each != leader.node_id]
            members = self.rand.sample(others, self.rand.randint(0, len(others)))
            data = PartitionData(
                partition_index=number,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                new_isr_with_epochs=tuple(
                    BrokerState(broker_id=each, broker_epoch=NO_EPOCH)
                    for each in (leader.node_id, *members)
                ),
            )
            topic_data = TopicData(topic_id=found.topic_id, partitions=(data,))
            request = AlterPartitionRequest(
                broker_id=leader.node_id, broker_epoch=leader.epoch, topics=(topic_data,)
            )
            node.active.event_queue.submit(
                partial(alter_partition, request=request), then=_ignore, on_error=_ignore
            )

    def _believed_active(self) -> list[ControllerNode]:
        """A controller that believes to be active: perhaps another one is, too."""
        found = [each for each in self.world.controllers if each.active is not None]
        return [self.rand.choice(found)] if found else []

    def _crash_or_restart_controller(self) -> None:
        node = self.rand.choice(self.world.controllers)
        if node.is_up:
            node.crash()
        else:
            node.start()
        self.world.say(f"controller {node.node_id} up: {node.is_up}")

    def _restart_all(self) -> None:
        """Let the cluster work for a while."""
        self.world.cut.clear()
        for node in self.world.controllers:
            if not node.is_up:
                node.start()
        for broker in self.brokers:
            broker.is_stalled = False
            if not broker.is_up and self.rand.random() < 0.7:
                broker.start()

    def _crash_or_restart_broker(self) -> None:
        broker = self.rand.choice(self.brokers)
        if broker.is_up:
            broker.crash()
        else:
            broker.start()
        self.world.say(f"broker {broker.node_id} up: {broker.is_up}")

    def _cut_or_heal(self) -> None:
        if self.world.cut:
            self.world.cut.clear()
            return
        lonely = self.rand.choice(self.world.controllers).node_id
        for other in (*self.world.nodes, *(each.node_id for each in self.brokers)):
            if other != lonely:
                self.world.cut[lonely, other] = None
                self.world.cut[other, lonely] = None
        self.world.say(f"controller {lonely} is cut off")

    # The end

    def finish(self) -> None:
        """Heal everything; then all must agree, and every partition must have a leader."""
        world = self.world
        world.time.weather = CALM
        world.cut.clear()
        world.slow_sync = world.crash_after_effect = 0.0
        for node in world.controllers:
            if not node.is_up:
                node.start()
        for broker in self.brokers:
            broker.is_stalled = False
            if not broker.is_up or broker.wants_to_stop:
                # A broker that has asked to stop does not change its mind.
                broker.start()
        for _ in range(_MOST_RESTS):
            world.time.run_for(_REST_MS)
            if self._is_settled():
                break
        else:
            raise CheckFailed(f"not settled: {self._why_not()}")
        image = self._settled_image()
        for name in self.created:
            if name not in self.asked_to_delete and name not in image.topics:
                raise CheckFailed(f"{name} was acknowledged and is gone")
        for name in self.deleted:
            if name in image.topics:
                raise CheckFailed(f"{name} was deleted and is back")

    def _is_settled(self) -> bool:
        return not self._why_not()

    def _why_not(self) -> str:
        loaders = [each.loader for each in self.world.controllers]
        actives = [each for each in self.world.controllers if each.active is not None]
        if len(actives) != 1:
            return f"active controllers: {[each.node_id for each in actives]}"
        if len({each.end for each in loaders if each is not None}) != 1:
            return "replicas have different ends"
        image = self._settled_image()
        if len(image.brokers) < len(self.brokers):
            return f"fenced brokers: {list(image.fenced_brokers)}"
        for each in image.topics.values():
            if any(partition.leader == NO_LEADER for partition in each.partitions):
                return f"{each.name} has no leader"
        active = actives[0].active
        assert active is not None
        if comparable(active.event_queue.image) != comparable(image):
            return "the active controller's image is not that of the log"
        return ""

    def _settled_image(self) -> ClusterImage:
        loader = self.world.controllers[0].loader
        assert loader is not None
        return loader.image


def _ignore(_: object) -> None:
    """What was not acknowledged may have happened or not."""


def run(
    seed: int, *, steps: int = DEFAULT_STEPS, meddle: Callable[[], None] | None = None
) -> Outcome:
    """Run one seed; `meddle` plants a bug first."""
    if meddle is not None:
        meddle()
    life = ActiveControllerLife(seed)
    failure = None
    try:
        for _ in range(steps):
            life.step()
        life.finish()
    except (CheckFailed, AssertionError) as error:
        failure = f"{error}\n{traceback.format_exc()}"
    world = life.world
    return Outcome(
        seed=seed,
        trace=world.trace,
        events=world.time.event_count,
        registrations=world.controller_checks.registrations,
        acknowledged=len(life.created) + len(life.deleted),
        failovers=sum("leads epoch" in line for line in world.trace),
        failure=failure,
    )

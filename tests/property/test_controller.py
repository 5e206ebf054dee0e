"""Controllers, brokers, a store and a network under random faults."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.elect_leaders import PREFERRED, UNCLEAN, elect_leaders
from headwater.controller.partition_reassignment import alter_reassignments
from headwater.controller.partition_state_machine import (
    PARTITION_TRANSITIONS,
    PartitionState,
    partition_state,
)
from headwater.controller.replica_state_machine import (
    REPLICA_TRANSITIONS,
    ReplicaState,
    replica_state,
)
from headwater.controller.topic_changes import create_partitions, delete_topics
from headwater.controller.topic_creation import create_topics
from headwater.metadata.changes import (
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    TopicCreated,
    TopicDeleted,
    TopicKnown,
)
from headwater.metadata.cluster_image import (
    NO_LEADER,
    ClusterImage,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata.controller_result import ControllerResult
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest
from headwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.simulation.fakes.virtual_time import CALM, Weather
from tests.simulation.labs.cluster_lab import ALL_RIGHTS, STATIC, rng, topic
from tests.simulation.worlds.controller_world import ControllerWorld, Node

BROKERS = 5
NAMES = ("t", "u", "v")
UNCLEAN_TOPIC = "v"
STORM = Weather(loss=0.03, delay=0.4)

Decide = Callable[[ClusterImage], ControllerResult[object]]


class Rules:
    """Invariants of every change that the store accepts."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[TopicId, int, int], NodeId] = {}
        self.updates = 0
        self.known_topics: dict[Node, dict[str, TopicId]] = {}
        self.epochs: dict[tuple[Node, TopicId, int], int] = {}

    def check(self, before: ClusterImage, after: ClusterImage) -> None:
        self.updates += 1
        for now in after.topics.values():
            for number, partition in enumerate(now.partitions):
                old = before.topic_by_id(now.topic_id)
                if old is None or number >= len(old.partitions):
                    assert partition.partition_epoch == 0
                elif partition is not old.partitions[number]:
                    self._check_change(now, old.partitions[number], partition)
                self._check_state(now, number, partition)
        self._check_moves(before, after)
        self._check_admitted(before, after)

    def check_changes(self, node: Node, changes: Sequence[MetadataChange]) -> None:
        """Check a broker's reaction: above all, that it deletes no existing partition."""
        truth = node.world.image
        known = self.known_topics.setdefault(node, {})
        for change in changes:
            match change:
                case TopicCreated(made) | TopicKnown(made):
                    known[made.name] = made.topic_id
                case TopicDeleted(name):
                    found = truth.topic_by_id(known.pop(name))
                    assert found is None or found.is_deleting
                case PartitionDropped(name, number, is_deleted=True):
                    found = truth.topic_by_id(known[name])
                    assert (
                        found is None
                        or found.is_deleting
                        or node.node_id not in found.partitions[number].replicas
                    )
                case PartitionChanged(name, number, partition):
                    key = (node, known[name], number)
                    assert self.epochs.get(key, -1) <= partition.partition_epoch
                    self.epochs[key] = partition.partition_epoch
                case _:
                    pass

    def _check_state(self, now: TopicImage, number: int, partition: PartitionRegistration) -> None:
        assert set(partition.isr) <= set(partition.replicas)
        assert partition.isr
        assert len(set(partition.replicas)) == len(partition.replicas)
        if partition.leader != NO_LEADER:
            assert partition.leader in partition.isr
        term = (now.topic_id, number, partition.leader_epoch)
        assert self.leaders.setdefault(term, partition.leader) == partition.leader

    def _check_change(
        self, now: TopicImage, old: PartitionRegistration, new: PartitionRegistration
    ) -> None:
        assert new.partition_epoch == old.partition_epoch + 1, "the version of one node"
        assert new.leader_epoch >= old.leader_epoch
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch
            # A reassignment may complete together with the ISR change that it waited for.
            is_moving = bool(old.adding or old.removing)
            if new.leader != NO_LEADER and now.name != UNCLEAN_TOPIC and not is_moving:
                assert new.leader in old.isr

    def _check_moves(self, before: ClusterImage, after: ClusterImage) -> None:
        names = {
            TopicPartition(name, number): None
            for image in (before, after)
            for name, each in image.topics.items()
            for number in range(len(each.partitions))
        }
        for name in names:
            same = _topic_id(before, name) == _topic_id(after, name)
            here, there = partition_state(before, name), partition_state(after, name)
            if same and here is not there:
                assert there in PARTITION_TRANSITIONS[here] or here is PartitionState.NON_EXISTENT
            for node_id in map(NodeId, range(BROKERS)):
                one, other = (replica_state(each, node_id, name) for each in (before, after))
                if same and one is not other and ReplicaState.NON_EXISTENT not in (one, other):
                    assert other in REPLICA_TRANSITIONS[one]

    def _check_admitted(self, before: ClusterImage, after: ClusterImage) -> None:
        """ISR-7: a restarted broker is in the ISR only if it is the last member."""
        for node_id, epoch in after.admitted_epochs.items():
            if before.admitted_epochs.get(node_id) != epoch:
                for each in after.topics.values():
                    for partition in each.partitions:
                        assert (
                            node_id not in partition.isr
                            or partition.isr == (node_id,)
                            or each.is_deleting
                            or partition.leader == NO_LEADER
                        )


def _topic_id(image: ClusterImage, name: TopicPartition) -> TopicId | None:
    found = image.topics.get(name.topic)
    return None if found is None else found.topic_id


class Chaos:
    """Random faults and requests, one after the other."""

    def __init__(self, seed: int, *, goes_through_bytes: bool = False) -> None:
        self.rules = Rules()
        self.rand = random.Random(seed + 1)
        self.world = ControllerWorld(
            seed,
            texts={
                "leader.imbalance.check.interval.seconds": "20",
                # With short timeouts, requests arrive that were abandoned long ago.
                "controller.socket.timeout.ms": self.rand.choice(["3000", "50"]),
            },
            checked=self.rules.check,
            on_changes=self.rules.check_changes,
            goes_through_bytes=goes_through_bytes,
        )
        # A broker that requests controlled shutdown does stop, sooner or later.
        self.stopping: list[Node] = []
        for number in range(BROKERS):
            self.world.start(number)
        self.world.run(2_000)

    def step(self) -> None:
        action = self.rand.choice(
            [
                self._crash,
                self._stop,
                self._start,
                self._start,
                self._cut_from_store,
                self._expire,
                self._blink,
                self._blink,
                self._cut_link,
                self._heal,
                self._create,
                self._create,
                self._delete,
                self._grow,
                self._reassign,
                self._elect,
                self._shut_down,
                *[self._alter] * 6,
            ]
        )
        action()
        self.world.time.weather = self.rand.choice([CALM, CALM, STORM])
        self.world.run(self.rand.choice([0, 1, 5, 20, 100, 3_000, 9_000]))

    def calm_down(self) -> None:
        """Repair everything and run for long enough."""
        self.world.time.weather = CALM
        self._heal()
        for node in self.stopping:
            if self.world.nodes.get(node.node_id) is node:
                self.world.stop(node.node_id)
        for number in range(BROKERS):
            if NodeId(number) not in self.world.nodes:
                self.world.start(number)
        self.world.run(60_000)

    # Brokers and their links.

    def _crash(self) -> None:
        if len(self.world.nodes) > 1:
            self.world.crash(self._some_node().node_id)

    def _stop(self) -> None:
        if len(self.world.nodes) > 2:
            self.world.stop(self._some_node().node_id)

    def _start(self) -> None:
        gone = [each for each in range(BROKERS) if NodeId(each) not in self.world.nodes]
        if gone:
            self.world.start(self.rand.choice(gone))

    def _cut_from_store(self) -> None:
        self._some_node().session.cut()

    def _expire(self) -> None:
        self._some_node().session.expire()

    def _blink(self) -> None:
        """The controller loses the store for a moment, with writes in flight."""
        for node in self.world.nodes.values():
            if node.leading is not None:
                self._create()
                self.world.run(self.rand.randint(1, 8))
                node.session.cut()
                self.world.run(self.rand.randint(1, 100))
                node.session.heal()
                return

    def _cut_link(self) -> None:
        self.world.network.cut_one_way(self._some_node().node_id, self._some_node().node_id)

    def _heal(self) -> None:
        self.world.network.heal()
        for node in self.world.nodes.values():
            node.session.heal()

    def _shut_down(self) -> None:
        node = self._some_node()
        self.stopping.append(node)
        request = ControlledShutdownRequest(broker_id=node.node_id, broker_epoch=node.broker_epoch)
        for each in list(self.world.nodes.values()):
            if each.leading is not None:
                each.serve(node.node_id, request, node.answers.append)

    # Requests of clients and leaders.

    def _create(self) -> None:
        name = self.rand.choice(NAMES)
        configs: dict[str, str | None] = {}
        if name == UNCLEAN_TOPIC:
            configs["unclean.leader.election.enable"] = "true"
        asked = topic(name, self.rand.randint(1, 4), self.rand.randint(1, 3), configs=configs)
        request = CreateTopicsRequest(topics=(asked,))
        some = rng(self.rand.randrange(2**40))
        self._submit(partial(create_topics, request=request, static=STATIC, rng=some))

    def _delete(self) -> None:
        topic = DeleteTopicState(name=self.rand.choice(NAMES))
        request = DeleteTopicsRequest(topics=(topic,))
        self._submit(partial(delete_topics, request=request, authorization=ALL_RIGHTS))

    def _grow(self) -> None:
        topic = CreatePartitionsTopic(
            name=self.rand.choice(NAMES), count=self.rand.randint(1, 6), assignments=None
        )
        request = CreatePartitionsRequest(topics=(topic,))
        self._submit(partial(create_partitions, request=request, rng=rng(1)))

    def _reassign(self) -> None:
        replicas = self.rand.sample(range(BROKERS), self.rand.randint(1, 3))
        partition = ReassignablePartition(
            partition_index=0, replicas=self.rand.choice([None, tuple(replicas), tuple(replicas)])
        )
        request = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name=self.rand.choice(NAMES), partitions=(partition,)),)
        )
        self._submit(partial(alter_reassignments, request=request))

    def _elect(self) -> None:
        kinds = [PREFERRED, PREFERRED, UNCLEAN]
        request = ElectLeadersRequest(election_type=self.rand.choice(kinds), topic_partitions=None)
        if request.election_type == PREFERRED:
            self._submit(partial(elect_leaders, request=request))

    def _alter(self) -> None:
        """A leader, or a broker that believes to be one, requests another ISR."""
        asker = self._some_node()
        led = [
            TopicPartition(name, number)
            for name, each in asker.metadata_cache.image.topics.items()
            for number, partition in enumerate(each.partitions)
            if partition.leader == asker.node_id
        ]
        for name in self.rand.sample(led, min(len(led), 3)):
            partition = asker.metadata_cache.image.partition(*name)
            assert partition is not None
            others = [each for each in partition.replicas if each != asker.node_id]
            chosen = self.rand.sample(others, self.rand.randint(0, len(others)))
            self.world.ask_for_isr(name, [asker.node_id, *chosen], asker)

    def _submit(self, decide: Decide) -> None:
        for node in list(self.world.nodes.values()):
            if node.leading is not None:
                node.leading.event_queue.submit(
                    decide, then=lambda _: None, on_error=lambda _: None
                )

    def _some_node(self) -> Node:
        return self.rand.choice(list(self.world.nodes.values()))


def check_convergence(world: ControllerWorld) -> None:
    """Check that nothing is in flight, and that every broker knows the store's state."""
    image = world.image
    leading = world.leading
    assert leading.is_idle
    assert leading.event_queue.image.topics == leading.event_queue.proposed.topics == image.topics
    assert leading.event_queue.image.brokers.keys() == image.brokers.keys()
    assert image.brokers.keys() == world.nodes.keys()
    for node in world.nodes.values():
        cached = node.metadata_cache.image
        assert node.metadata_cache.has_full_update
        assert cached.brokers.keys() == image.brokers.keys()
        assert cached.controller_id == image.controller_id
        assert dict(cached.configs) == dict(image.configs)
        assert {name: _as_cached(each, node) for name, each in image.topics.items()} == {
            name: _as_cached(each, node) for name, each in cached.topics.items()
        }


def _as_cached(each: TopicImage, node: Node) -> TopicImage:
    """Drop ongoing reassignments of partitions without a replica on this broker.

    UpdateMetadata does not have them, only LeaderAndIsr.
    """
    return replace(
        each,
        partitions=tuple(
            partition
            if node.node_id in partition.replicas
            else replace(partition, adding=(), removing=())
            for partition in each.partitions
        ),
    )


def check_health(world: ControllerWorld) -> None:
    """Check that nothing is left undone when all brokers are up."""
    for each in world.image.topics.values():
        assert not each.is_deleting
        for partition in each.partitions:
            assert partition.leader in world.image.brokers


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_leaders_are_valid_and_brokers_converge_under_random_faults(seed: int, steps: int) -> None:
    chaos = Chaos(seed)
    for _ in range(steps):
        chaos.step()
    chaos.calm_down()
    check_convergence(chaos.world)
    check_health(chaos.world)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=3, deadline=None)
def test_leaders_are_valid_and_brokers_converge_with_encoded_messages(seed: int) -> None:
    chaos = Chaos(seed, goes_through_bytes=True)
    for _ in range(25):
        chaos.step()
    chaos.calm_down()
    check_convergence(chaos.world)
    check_health(chaos.world)


def test_idle_cluster_writes_nothing() -> None:
    chaos = Chaos(1)
    chaos._create()
    chaos.world.run(1_000)
    updates = chaos.rules.updates
    assert updates > 0
    chaos.world.run(3_600_000)
    assert chaos.rules.updates == updates
    assert ErrorCode.NONE not in chaos.world.nodes[NodeId(0)].trouble.values()

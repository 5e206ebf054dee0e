"""A transaction's marker counts as written when it cannot be lost any more (TX-6)."""

from headwater.broker.coordinators.transaction_marker_writer import Marker
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, ProducerId, TopicPartition
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from tests.simulation.worlds.replica_nodes import TOPIC
from tests.simulation.worlds.replica_world import SETTINGS, ReplicaWorld

MARKER = Marker(
    producer=TransactionalProducer(ProducerId(7), 0),
    coordinator_epoch=1,
    client_version=1,
    is_commit=True,
)
PLACE = TopicPartition(TOPIC, 0)
PATIENCE_MS = int(SETTINGS["request.timeout.ms"])


def world_with_a_silent_follower(*, lag_ms: int = 60_000) -> ReplicaWorld:
    """The follower is in sync, and nobody may take it for dead before the test is over."""
    world = ReplicaWorld(brokers=2, texts={"replica.lag.time.max.ms": str(lag_ms)})
    world.run(1_000)
    world.network.isolate(NodeId(1))
    return world


def written(world: ReplicaWorld) -> list[ErrorCode]:
    """What has been answered by now; more may come."""
    answers: list[ErrorCode] = []
    world.nodes[0].broker.markers.write(MARKER, PLACE, answers.append)
    assert world.nodes[0].hosted.opened().end_offset == 1, "it is in the leader's log at once"
    return answers


def test_a_marker_is_written_when_all_in_sync_replicas_have_it() -> None:
    """TX-6, HW-2: the coordinator forgets a transaction once its markers are acknowledged."""
    world = world_with_a_silent_follower()
    answers = written(world)
    world.run(PATIENCE_MS // 2)
    assert not answers
    world.network.heal()
    world.run(PATIENCE_MS // 2 - 1)
    assert answers == [ErrorCode.NONE]
    assert world.nodes[1].hosted.opened().end_offset == 1
    world.run(2 * PATIENCE_MS)
    assert answers == [ErrorCode.NONE], "the end of its time tells nothing more"


def test_a_marker_of_a_leader_that_is_deposed_meanwhile_is_not_written() -> None:
    """The coordinator sends it to the next leader, which may lack it."""
    world = world_with_a_silent_follower()
    answers = written(world)
    world.controller.elect(NodeId(1))
    world.run(PATIENCE_MS // 2)
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.run(2 * PATIENCE_MS)
    assert len(answers) == 1


def test_a_marker_that_replicas_do_not_take_in_time_is_given_up() -> None:
    """The coordinator asks again, and a second copy ends nothing."""
    world = world_with_a_silent_follower()
    answers = written(world)
    world.run(PATIENCE_MS - 1)
    assert not answers
    world.run(1)
    assert answers == [ErrorCode.REQUEST_TIMED_OUT]
    world.network.heal()
    world.run(2 * PATIENCE_MS)
    assert len(answers) == 1, "that it arrived after all is not told"


def test_a_marker_is_written_without_a_follower_that_is_no_longer_in_sync() -> None:
    """ISR-1: whoever lags for too long is not waited for."""
    world = world_with_a_silent_follower(lag_ms=300)
    answers = written(world)
    world.run(PATIENCE_MS - 1)
    assert answers == [ErrorCode.NONE]
    assert world.controller.state.isr == (NodeId(0),)

"""A transaction marker is acknowledged once it is committed (TX-6)."""

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
TIMEOUT_MS = int(SETTINGS["request.timeout.ms"])


def world_with_a_silent_follower(*, lag_ms: int = 60_000) -> ReplicaWorld:
    """The follower is in the ISR, and stays there until the test is over."""
    world = ReplicaWorld(brokers=2, texts={"replica.lag.time.max.ms": str(lag_ms)})
    world.run(1_000)
    world.network.isolate(NodeId(1))
    return world


def written(world: ReplicaWorld) -> list[ErrorCode]:
    """Return the results so far; more may come."""
    answers: list[ErrorCode] = []
    world.nodes[0].broker.markers.write(MARKER, PLACE, answers.append)
    assert world.nodes[0].hosted.open_log().end_offset == 1, "it is in the leader's log at once"
    return answers


def test_marker_is_acknowledged_when_the_whole_isr_has_it() -> None:
    """TX-6, HW-2: the coordinator forgets a transaction once its markers are acknowledged."""
    world = world_with_a_silent_follower()
    answers = written(world)
    world.run(TIMEOUT_MS // 2)
    assert not answers
    world.network.heal()
    world.run(TIMEOUT_MS // 2 - 1)
    assert answers == [ErrorCode.NONE]
    assert world.nodes[1].hosted.open_log().end_offset == 1
    world.run(2 * TIMEOUT_MS)
    assert answers == [ErrorCode.NONE], "the end of its time tells nothing more"


def test_marker_fails_if_the_leader_is_deposed_meanwhile() -> None:
    """The coordinator sends it to the next leader, which may lack it."""
    world = world_with_a_silent_follower()
    answers = written(world)
    world.controller.elect(NodeId(1))
    world.run(TIMEOUT_MS // 2)
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.run(2 * TIMEOUT_MS)
    assert len(answers) == 1


def test_marker_times_out_if_replicas_do_not_fetch_it() -> None:
    """The coordinator sends it again, and a second copy ends nothing."""
    world = world_with_a_silent_follower()
    answers = written(world)
    world.run(TIMEOUT_MS - 1)
    assert not answers
    world.run(1)
    assert answers == [ErrorCode.REQUEST_TIMED_OUT]
    world.network.heal()
    world.run(2 * TIMEOUT_MS)
    assert len(answers) == 1, "that it arrived after all is not told"


def test_marker_does_not_wait_for_a_follower_outside_the_isr() -> None:
    """ISR-1: a follower that lags for too long leaves the ISR."""
    world = world_with_a_silent_follower(lag_ms=300)
    answers = written(world)
    world.run(TIMEOUT_MS - 1)
    assert answers == [ErrorCode.NONE]
    assert world.controller.state.isr == (NodeId(0),)

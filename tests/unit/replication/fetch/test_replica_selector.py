"""Preferred read replicas: FT-10 (KIP-392)."""

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.common.settings.broker_settings import RACK_AWARE_SELECTOR
from headwater.protocol.messages.produce import ProduceResponse
from tests.simulation.worlds.replica_world import ReplicaWorld, outcome

ONE, TWO, THREE = NodeId(0), NodeId(1), NodeId(2)
RACKS = {ONE: "east", TWO: "west", THREE: "north"}
NEAREST = {"replica.selector.class": RACK_AWARE_SELECTOR, "broker.rack": "east"}


def with_records(texts: dict[str, str]) -> ReplicaWorld:
    world = ReplicaWorld(racks=RACKS, texts=texts)
    world.run(1_000)
    for _ in range(3):
        world.produce(b"tea")
    world.run(1_000)
    return world


def test_a_consumer_is_sent_to_the_isr_member_in_its_rack() -> None:
    world = with_records(NEAREST)
    sent_on = world.fetch(world.leader, 0, rack="west")
    assert (sent_on.error_code, sent_on.preferred_read_replica) == (ErrorCode.NONE, TWO)
    assert not sent_on.records
    assert (sent_on.high_watermark, sent_on.log_start_offset) == (3, 0)


def test_a_consumer_without_a_replica_in_its_rack_reads_from_the_leader() -> None:
    world = with_records(NEAREST)
    for rack in ("east", "south", ""):
        read = world.fetch(world.leader, 0, rack=rack)
        assert read.preferred_read_replica == -1
        assert read.records


def test_without_a_replica_selector_consumers_read_from_the_leader() -> None:
    world = with_records({"broker.rack": "east"})
    assert world.fetch(world.leader, 0, rack="west").preferred_read_replica == -1


def test_a_replica_outside_the_isr_or_without_the_offset_is_not_preferred() -> None:
    world = with_records(NEAREST)
    assert world.fetch(world.leader, 3, rack="west").preferred_read_replica == TWO
    world.network.isolate(TWO)
    world.produce(b"more", acks=1)
    assert world.fetch(world.leader, 4, rack="west").preferred_read_replica == -1
    world.run(5_000)
    assert world.controller.state.isr == (ONE, THREE)
    assert world.fetch(world.leader, 0, rack="west").preferred_read_replica == -1


def test_a_follower_serves_consumers_up_to_its_own_high_watermark() -> None:
    world = with_records(NEAREST)
    follower = world.nodes[1]
    read = world.fetch(follower, 0)
    assert read.records
    assert read.high_watermark == follower.hosted.open_log().high_watermark == 3


def test_a_follower_that_serves_consumers_gets_a_new_high_watermark_at_once() -> None:
    waits_long = {**NEAREST, "replica.fetch.wait.max.ms": "900"}
    world = with_records(waits_long)
    world.produce(b"more")
    world.run(50)
    assert [node.hosted.open_log().high_watermark for node in world.nodes] == [4, 4, 4]


def test_a_broker_without_a_replica_answers_not_leader_or_follower() -> None:
    """FT-11: the topic exists, so the client must look up its leader."""
    world = ReplicaWorld(spares=1)
    world.run(500)
    assert world.fetch(world.nodes[3], 0).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_request_to_the_wrong_broker_gets_a_leader_hint() -> None:
    """EP-11 (KIP-951)."""
    world = ReplicaWorld(spares=1)
    world.run(500)
    other, follower = world.nodes[3], world.nodes[1]
    fetched = world.fetch(other, 0)
    assert fetched.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (fetched.current_leader.leader_id, fetched.current_leader.leader_epoch) == (ONE, 0)
    sent = world.produce(b"tea", to=follower)
    answer = sent.answer(ProduceResponse)
    assert outcome(sent).current_leader.leader_id == ONE
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host) == (ONE, "broker-0.test")
    world.controller.elect(TWO)
    world.run(500)
    moved = world.produce(b"tea", to=world.nodes[0])
    assert outcome(moved).current_leader.leader_id == TWO
    assert outcome(moved).current_leader.leader_epoch == 1

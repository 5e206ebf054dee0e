"""One partition on several brokers, from produce to replication."""

from dataclasses import replace

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.coordinator.records.record_serde import GROUP_RECORDS
from headwater.coordinator.runtime.coordinator_log import PartitionCoordinatorLog
from headwater.metadata.cluster_image import NO_LEADER
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.replication.isr_state import CommittedIsr
from headwater.storage.io.executor import InlineExecutor
from tests.simulation.worlds.replica_world import ReplicaWorld, content, outcome

ONE, TWO, THREE = NodeId(0), NodeId(1), NodeId(2)


def high_watermarks(world: ReplicaWorld) -> list[int]:
    return [node.hosted.open_log().high_watermark for node in world.nodes]


def test_acks_all_is_answered_when_every_isr_member_has_the_batch() -> None:
    """HW-2, HW-4."""
    world = ReplicaWorld()
    world.run(1_000)
    sent = world.produce(b"tea")
    assert not sent.is_answered
    world.run(100)
    assert outcome(sent).error_code is ErrorCode.NONE
    assert outcome(sent).base_offset == 0
    assert content(world.nodes[0]) == content(world.nodes[1]) == content(world.nodes[2]) != b""


def test_followers_get_the_high_watermark_with_their_next_fetch() -> None:
    """HW-5."""
    world = ReplicaWorld()
    world.run(1_000)
    for _ in range(5):
        world.produce(b"tea")
    world.run(1_000)
    assert high_watermarks(world) == [5, 5, 5]


def test_acks_one_is_answered_at_once_and_visible_when_all_have_it() -> None:
    """MIN-4, HW-6."""
    world = ReplicaWorld()
    world.run(1_000)
    sent = world.produce(b"tea", acks=1)
    assert outcome(sent).error_code is ErrorCode.NONE
    assert not world.fetch(world.leader, 0).records
    world.run(100)
    assert world.fetch(world.leader, 0).records


def test_a_dead_follower_is_waited_for_until_it_leaves_the_isr() -> None:
    """ISR-1, ISR-4: it leaves when the controller has answered."""
    world = ReplicaWorld()
    world.run(1_000)
    world.nodes[2].crash(loses_power=False)
    sent = world.produce(b"tea", timeout_ms=60_000)
    world.run(1_500)
    assert not sent.is_answered
    world.run(3_000)
    assert world.controller.state.isr == (ONE, TWO)
    assert outcome(sent).error_code is ErrorCode.NONE
    replicas = world.leader.replicas
    assert (replicas.in_sync_shrinks, replicas.in_sync_expands) == (1, 0)
    assert world.nodes[1].replicas.bytes_in == len(content(world.leader)) <= replicas.bytes_out
    assert world.leader.hosted.topic.bytes_out == 0


def test_an_isr_change_is_counted_once_if_metadata_overtakes_its_response() -> None:
    world = ReplicaWorld()
    world.run(1_000)
    hosted, replicas = world.leader.hosted, world.leader.replicas
    assert hosted.leader_state is not None
    proposal = hosted.leader_state.isr.propose_shrink((THREE,))
    assert proposal is not None
    epoch = hosted.state.partition_epoch + 1
    hosted.update_state(replace(hosted.state, isr=(ONE, TWO), partition_epoch=epoch))
    assert (replicas.in_sync_shrinks, replicas.in_sync_expands) == (1, 0)
    late = CommittedIsr(
        leader=ONE, leader_epoch=hosted.leader_epoch, isr=(ONE, TWO), partition_epoch=epoch
    )
    hosted.handle_alter_partition_response(proposal, late)
    assert replicas.in_sync_shrinks == 1


def test_a_produce_that_times_out_has_its_offset() -> None:
    """MIN-3, MIN-5."""
    world = ReplicaWorld()
    world.run(1_000)
    world.network.isolate(THREE)
    sent = world.produce(b"tea", timeout_ms=500)
    world.run(600)
    assert outcome(sent).error_code is ErrorCode.REQUEST_TIMED_OUT
    assert outcome(sent).base_offset == 0
    assert world.leader.hosted.leader_state is not None
    assert not len(world.leader.hosted.leader_state.delayed_produces)


def test_acks_all_is_rejected_below_min_insync_replicas() -> None:
    """MIN-1, HW-3: records written with acks=1 stay invisible meanwhile."""
    world = ReplicaWorld(configs={"min.insync.replicas": "2"})
    world.run(1_000)
    for node in world.nodes[1:]:
        node.crash(loses_power=False)
        world.controller.notice_death(node.node_id)
    world.run(100)
    assert world.controller.state.isr == (ONE,)
    refused = world.produce(b"tea")
    assert outcome(refused).error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert outcome(refused).base_offset == -1
    assert outcome(world.produce(b"tea", acks=1)).error_code is ErrorCode.NONE
    world.run(5_000)
    assert world.leader.hosted.open_log().high_watermark == 0


def test_a_restarted_broker_catches_up_and_rejoins_the_isr() -> None:
    """ISR-3."""
    world = ReplicaWorld()
    world.run(1_000)
    world.nodes[2].crash(loses_power=True)
    world.controller.notice_death(THREE)
    world.run(100)
    for _ in range(20):
        world.produce(b"tea")
        world.run(50)
    assert world.leader.hosted.open_log().high_watermark == 20
    world.controller.start(world.nodes[2])
    world.run(1_000)
    assert world.controller.state.isr == (ONE, TWO, THREE)
    assert content(world.nodes[2]) == content(world.nodes[0])


def test_an_isr_member_becomes_leader_and_the_old_leader_follows_it() -> None:
    """EP-1: with a new leader epoch, which its first record carries."""
    world = ReplicaWorld()
    world.run(1_000)
    world.produce(b"tea")
    world.run(300)
    world.controller.elect(TWO)
    world.run(300)
    refused = world.produce(b"no", to=world.nodes[0])
    assert outcome(refused).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    sent = world.produce(b"coffee")
    world.run(300)
    assert outcome(sent).base_offset == 1
    assert content(world.nodes[0]) == content(world.nodes[1]) == content(world.nodes[2])
    assert [each.epoch for each in world.nodes[0].hosted.open_log().epochs.entries()] == [0, 1]


def test_records_only_on_a_former_leader_are_truncated_when_it_returns() -> None:
    """EP-5, EP-6."""
    world = ReplicaWorld()
    world.run(1_000)
    world.produce(b"kept")
    world.run(500)
    world.network.isolate(ONE)
    lost = world.produce(b"lost", timeout_ms=300)
    world.produce(b"lost too", acks=1)
    world.controller.elect(TWO, isr=(TWO, THREE))
    world.run(400)
    assert outcome(lost).error_code in (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    assert world.nodes[0].hosted.open_log().end_offset == 3
    world.produce(b"new")
    world.network.heal()
    world.run(2_000)
    assert content(world.nodes[0]) == content(world.nodes[1])
    assert world.nodes[0].hosted.open_log().end_offset == 2
    assert world.controller.state.isr == (TWO, THREE, ONE)


def test_an_epoch_without_records_does_not_keep_a_leader_from_following() -> None:
    """EP-1 and EP-6: its entry is at the log end, where nothing is truncated."""
    world = ReplicaWorld()
    world.run(1_000)
    world.produce(b"tea")
    world.run(500)
    world.network.isolate(ONE)
    world.controller.elect(ONE)
    world.run(100)
    world.controller.elect(TWO, isr=(TWO, THREE))
    world.run(300)
    world.produce(b"coffee")
    world.run(300)
    world.network.heal()
    world.run(2_000)
    assert content(world.nodes[0]) == content(world.nodes[1])
    assert world.controller.state.isr == (TWO, THREE, ONE)


def test_delayed_produces_fail_when_leadership_is_lost() -> None:
    world = ReplicaWorld()
    world.run(1_000)
    world.network.cut(ONE, TWO)
    world.network.cut(ONE, THREE)
    sent = world.produce(b"tea", timeout_ms=60_000)
    world.controller.elect(TWO, isr=(TWO, THREE))
    world.run(100)
    assert outcome(sent).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_waits_for_its_last_isr_member() -> None:
    """ISR-7."""
    world = ReplicaWorld()
    world.run(1_000)
    for node in (world.nodes[1], world.nodes[2], world.nodes[0]):
        node.crash(loses_power=False)
        world.controller.notice_death(node.node_id)
    assert (world.controller.state.leader, world.controller.state.isr) == (NO_LEADER, (ONE,))
    world.controller.start(world.nodes[1])
    world.controller.elect_if_possible()
    world.run(500)
    refused = world.produce(b"tea", to=world.nodes[1])
    assert outcome(refused).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.controller.start(world.nodes[0])
    world.controller.elect_if_possible()
    world.run(3_000)
    sent = world.produce(b"tea")
    world.run(500)
    assert outcome(sent).error_code is ErrorCode.NONE
    assert world.controller.state.isr == (ONE, TWO)


def test_records_of_a_coordinator_are_committed_when_followers_have_them() -> None:
    world = ReplicaWorld()
    world.run(1_000)
    log = PartitionCoordinatorLog(world.leader.hosted, GROUP_RECORDS, InlineExecutor())
    observed: list[int] = []
    log.watch(lambda: observed.append(log.committed_offset))
    record = Record(key=b"k", value=b"v", timestamp=world.time.now_ms)
    assert log.append(bytearray(build_batch([record])), world.time.now_ms) == 0
    assert (log.end_offset, log.committed_offset) == (1, 0)
    world.run(100)
    assert (log.committed_offset, observed[-1]) == (1, 1)


def test_followers_that_return_together_join_one_after_the_other() -> None:
    """ISR-4: the second has caught up while the first is being added."""
    world = ReplicaWorld()
    world.run(1_000)
    for node in world.nodes[1:]:
        node.crash(loses_power=False)
        world.controller.notice_death(node.node_id)
    world.run(100)
    for node in world.nodes[1:]:
        world.controller.start(node)
    world.run(400)
    assert world.controller.state.isr == (ONE, TWO, THREE)

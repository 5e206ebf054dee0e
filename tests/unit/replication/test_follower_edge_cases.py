"""Followers out of range, short-lived leaders, failing disks, removed replicas."""

import random

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.changes import PartitionDropped
from headwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.fakes.scripted_controller import TOPIC_ID
from tests.simulation.labs.broker_lab import Sent
from tests.simulation.worlds.replica_nodes import TOPIC, ReplicaNode
from tests.simulation.worlds.replica_world import ReplicaWorld, content, outcome

ONE, TWO, THREE = NodeId(0), NodeId(1), NodeId(2)
NAME = TopicPartition(TOPIC, 0)
LATEST, EARLIEST = -1, -2


def begun(count: int = 3) -> ReplicaWorld:
    world = ReplicaWorld()
    world.run(1_000)
    for number in range(count):
        world.produce(b"%d" % number)
        world.run(20)
    world.run(500)
    return world


def delete_below(world: ReplicaWorld, offset: int, timeout_ms: int = 5_000) -> Sent:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = (DeleteRecordsTopic(name=TOPIC, partitions=(asked,)),)
    return world.leader.send(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms))


def deleted(sent: Sent) -> DeleteRecordsPartitionResult:
    ((result,),) = (each.partitions for each in sent.answer(DeleteRecordsResponse).topics)
    return result


def list_offset(
    node: ReplicaNode, timestamp: int, *, version: int | None = None, replica_id: int = -1
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=(ListOffsetsTopic(name=TOPIC, partitions=(asked,)),)
    )
    answer = node.send(request, version).answer(ListOffsetsResponse)
    ((found,),) = (each.partitions for each in answer.topics)
    return found


def test_delete_records_completes_when_every_live_replica_has_deleted() -> None:
    """DR-1."""
    world = begun()
    sent = delete_below(world, 2)
    assert not sent.is_answered
    world.run(1_000)
    assert deleted(sent) == DeleteRecordsPartitionResult(partition_index=0, low_watermark=2)
    assert [node.hosted.open_log().log_start_offset for node in world.nodes] == [2, 2, 2]


def test_delete_records_does_not_wait_for_a_replica_that_is_not_live() -> None:
    world = begun()
    world.nodes[2].crash(loses_power=False)
    world.controller.notice_death(THREE)
    world.run(100)
    sent = delete_below(world, 2)
    world.run(1_000)
    assert deleted(sent).low_watermark == 2


def test_delete_records_times_out_if_followers_do_not_confirm() -> None:
    world = begun()
    world.network.isolate(THREE)
    sent = delete_below(world, 2, timeout_ms=300)
    world.run(400)
    assert deleted(sent).error_code is ErrorCode.REQUEST_TIMED_OUT


def test_a_follower_below_the_leaders_log_start_restarts_there() -> None:
    """EP-7."""
    world = begun()
    world.nodes[2].crash(loses_power=False)
    world.controller.notice_death(THREE)
    for number in range(5):
        world.produce(b"more %d" % number)
        world.run(50)
    delete_below(world, 6)
    world.run(500)
    world.controller.start(world.nodes[2])
    world.run(2_000)
    log = world.nodes[2].hosted.open_log()
    assert (log.log_start_offset, log.end_offset) == (6, 8)
    assert world.controller.state.isr == (ONE, TWO, THREE)


def test_a_follower_may_start_in_the_middle_of_a_partly_deleted_batch() -> None:
    """The batch that contains the offset is sent as a whole (FT-3)."""
    world = ReplicaWorld()
    world.run(1_000)
    world.nodes[2].crash(loses_power=False)
    world.controller.notice_death(THREE)
    world.run(100)
    records = [Record(value=b"%d" % number, timestamp=1) for number in range(10)]
    data = PartitionProduceData(index=0, records=memoryview(build_batch(records)))
    topic = TopicProduceData(topic_id=TOPIC_ID, partition_data=(data,))
    world.leader.send(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=(topic,)))
    world.run(200)
    delete_below(world, 4)
    world.run(500)
    world.controller.start(world.nodes[2])
    world.run(2_000)
    log = world.nodes[2].hosted.open_log()
    assert (log.log_start_offset, log.end_offset) == (4, 10)
    assert content_from(world.nodes[2], 4) == content_from(world.nodes[0], 4)


def content_from(node: ReplicaNode, offset: int) -> bytes:
    assert node.hosted.open_log().log_start_offset == offset
    return content(node)


def test_a_follower_ahead_of_an_unclean_leader_truncates() -> None:
    """EP-6, EP-7: records are lost, and all replicas agree on it."""
    world = begun()
    world.nodes[2].crash(loses_power=False)
    world.controller.notice_death(THREE)
    for number in range(5):
        world.produce(b"lost %d" % number)
        world.run(50)
    for node in world.nodes[:2]:
        node.crash(loses_power=False)
        world.controller.notice_death(node.node_id)
    world.controller.start(world.nodes[2])
    world.controller.elect(THREE, isr=(THREE,))
    world.run(200)
    world.produce(b"new")
    for node in world.nodes[:2]:
        world.controller.start(node)
    world.run(2_000)
    assert content(world.nodes[0]) == content(world.nodes[1]) == content(world.nodes[2])
    assert world.nodes[0].hosted.open_log().end_offset == 4


def test_a_new_leader_returns_no_latest_offset_before_its_high_watermark_is_known() -> None:
    """HW-8."""
    world = begun()
    world.network.isolate(TWO)
    world.network.isolate(THREE)
    world.produce(b"more", acks=1)
    world.controller.elect(ONE)
    world.run(100)
    leader = world.nodes[0]
    assert leader.hosted.is_new_leader
    assert list_offset(leader, LATEST).error_code is ErrorCode.OFFSET_NOT_AVAILABLE
    old = list_offset(leader, LATEST, version=4)
    assert old.error_code is ErrorCode.LEADER_NOT_AVAILABLE
    assert list_offset(leader, EARLIEST).offset == 0
    assert list_offset(leader, LATEST, replica_id=TWO).offset == 4
    world.network.heal()
    world.run(1_000)
    assert list_offset(leader, LATEST).offset == 4


def test_a_failed_disk_ends_leadership_and_the_controller_learns_why() -> None:
    world = begun()
    leader = world.leader
    leader.disk.fail_next_write("*.log")
    assert outcome(world.produce(b"tea")).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.broker.partitions.handle_failed_log_dirs()
    assert not leader.broker.partitions.handle_failed_log_dirs()
    assert leader.broker.partitions.log_dir_error(NAME) is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.hosted.leader_state is None
    world.controller.elect(TWO, isr=(TWO, THREE))
    world.run(1_000)
    sent = world.produce(b"tea")
    world.run(500)
    assert outcome(sent).error_code is ErrorCode.NONE


def test_a_delayed_produce_fails_with_the_disk() -> None:
    world = begun()
    world.network.isolate(ONE)
    sent = world.produce(b"tea", timeout_ms=60_000)
    world.leader.disk.fail_next_write("*.log")
    world.produce(b"more", acks=1)
    world.leader.broker.partitions.handle_failed_log_dirs()
    assert outcome(sent).error_code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_dropped_replica_is_not_served_and_can_return(is_deleted: bool) -> None:
    world = begun()
    follower = world.nodes[2]
    follower.told([PartitionDropped(TOPIC, 0, is_deleted=is_deleted)])
    assert not follower.has_hosted
    assert world.fetch(follower, 0).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (NAME in follower.broker.directories) is not is_deleted
    world.run(200)
    world.controller.elect(TWO, isr=(ONE, TWO))
    world.run(1_000)
    assert follower.hosted.open_log().end_offset == 3
    assert content(follower) == content(world.nodes[0])
    assert world.controller.state.isr == (ONE, TWO, THREE)


def test_a_reassignment_adds_a_replica_to_a_broker_that_had_none() -> None:
    world = ReplicaWorld(spares=1)
    world.run(1_000)
    for number in range(3):
        world.produce(b"%d" % number)
        world.run(20)
    world.controller.reassign((ONE, TWO, THREE, NodeId(3)))
    world.run(2_000)
    assert world.controller.state.isr == (ONE, TWO, THREE, NodeId(3))
    assert content(world.nodes[3]) == content(world.nodes[0])


def test_a_throttled_replica_outside_the_isr_is_sent_no_more_than_the_rate() -> None:
    limits = {"leader.replication.throttled.replicas": "*"}
    world = ReplicaWorld(
        configs=limits,
        texts={
            "leader.replication.throttled.rate": "2000",
            "replica.fetch.response.max.bytes": "10000",
        },
        spares=1,
    )
    world.run(1_000)
    value = random.Random(1).randbytes(10_000)
    for _ in range(10):
        world.produce(value)
        world.run(50)
    assert world.leader.hosted.open_log().high_watermark == 10, "who is in sync is not throttled"
    world.run(12_000)
    world.controller.reassign((ONE, TWO, THREE, NodeId(3)))
    world.run(2_000)
    assert world.nodes[3].hosted.open_log().end_offset < 10
    world.run(120_000)
    assert world.nodes[3].hosted.open_log().end_offset == 10


def test_a_throttled_follower_fetches_no_more_than_the_rate() -> None:
    limits = {"follower.replication.throttled.replicas": "0:3"}
    world = ReplicaWorld(
        configs=limits,
        texts={
            "follower.replication.throttled.rate": "2000",
            "replica.fetch.response.max.bytes": "10000",
        },
        spares=1,
    )
    world.run(1_000)
    value = random.Random(1).randbytes(10_000)
    for _ in range(10):
        world.produce(value)
        world.run(50)
    world.controller.reassign((ONE, TWO, THREE, NodeId(3)))
    world.run(2_000)
    assert 0 < world.nodes[3].hosted.open_log().end_offset < 10
    world.run(120_000)
    assert world.nodes[3].hosted.open_log().end_offset == 10

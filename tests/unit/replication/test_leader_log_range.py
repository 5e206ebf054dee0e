"""Looking up the leader's log range, and late responses."""

from headwater.common.ids import NodeId
from headwater.metadata.changes import PartitionDropped
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.replication.follower_state import FollowerState
from headwater.replication.leader_log_range import look_up_range
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_fetcher import FetchSettings, ReplicaFetcherServices
from tests.simulation.fakes.scripted_inter_broker_client import ScriptedInterBrokerClient
from tests.simulation.worlds.replica_nodes import TOPIC, NodeClock
from tests.simulation.worlds.replica_world import ReplicaWorld

ONE, TWO, THREE = NodeId(0), NodeId(1), NodeId(2)


def listed(offset: int) -> ListOffsetsResponse:
    found = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
    return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name=TOPIC, partitions=(found,)),))


class Lab:
    """A follower in a cluster of three that looks up its leader's range."""

    def __init__(self) -> None:
        self.world = ReplicaWorld()
        self.world.run(1_000)
        for number in range(3):
            self.world.produce(b"%d" % number)
            self.world.run(20)
        self.world.run(500)
        self.follower = self.world.nodes[2]
        self.inter_broker_client = ScriptedInterBrokerClient()
        self.is_over = False

    def ask(self) -> None:
        tools = ReplicaFetcherServices(
            node_id=THREE,
            broker_epoch=lambda: 1,
            inter_broker_client=self.inter_broker_client,
            clock=NodeClock(self.world.time),
            timer=Timer(),
            settings=FetchSettings(),
            may_fetch=lambda _: True,
            record_bytes=lambda _hosted, _size_bytes: None,
        )
        look_up_range(tools, ONE, FollowerState(self.follower.hosted), then=self._end)

    def answer(self, *, start: int, end: int) -> None:
        self.inter_broker_client.asked[-1].answer(listed(end))
        self.inter_broker_client.asked[-1].answer(listed(start))

    def _end(self) -> None:
        self.is_over = True


def test_a_follower_moves_into_its_leaders_range() -> None:
    """EP-7."""
    lab = Lab()
    lab.ask()
    lab.answer(start=0, end=1)
    assert lab.follower.hosted.open_log().end_offset == 1
    assert lab.is_over


def test_a_late_response_does_not_truncate_a_log_that_this_broker_leads_by_now() -> None:
    """The replica was stopped meanwhile and started again, and leads now with the same log."""
    lab = Lab()
    lab.ask()
    lab.follower.told([PartitionDropped(TOPIC, 0, is_deleted=False)])
    lab.world.controller.elect(THREE)
    lab.world.run(1_000)
    assert lab.follower.hosted.is_leader
    lab.answer(start=0, end=1)
    assert lab.follower.hosted.open_log().end_offset == 3


def test_a_late_response_does_not_touch_a_new_topic_of_the_same_name() -> None:
    lab = Lab()
    lab.ask()
    lab.follower.told([PartitionDropped(TOPIC, 0, is_deleted=True)])
    lab.world.controller.elect(TWO)
    lab.world.run(2_000)
    assert lab.follower.hosted.open_log().end_offset == 3, "it has fetched everything again"
    names = lab.follower.disk.names(lab.follower.hosted.open_log().folder)
    lab.answer(start=7, end=9)
    assert lab.follower.disk.names(lab.follower.hosted.open_log().folder) == names

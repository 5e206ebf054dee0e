"""A group that goes from one protocol to the other and back, while it has members.

Who gets which partition is up to an assignor, so of assignments only the size is kept; and ids that
a coordinator draws are not kept at all.
"""

from dataclasses import dataclass

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.consumer.classic_member_protocol import read_assignment
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headwater.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.peers.lab import Lab
from tests.peers.scenarios.groups import await_coordinator
from tests.simulation.labs.consumer_group_requests import subscription

PROTOCOL = "range"


@dataclass(slots=True)
class Group:
    """One group at one broker, with members of both protocols."""

    lab: Lab
    topic: str
    name: str

    def beat(
        self, member_id: str, epoch: int, owned: tuple[TopicPartitions, ...] | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        is_joining = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.name,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            subscribed_topic_names=(self.topic,) if is_joining else None,
            topic_partitions=() if is_joining else owned,
        )
        return self.lab.get(request, ConsumerGroupHeartbeatResponse)

    def settle(self, member_id: str, epoch: int) -> int:
        """Send heartbeats until nothing changes; return the epoch."""
        while True:
            answer = self.beat(member_id, epoch)
            assert answer.error_code is ErrorCode.NONE, answer
            if answer.assignment is None:
                return answer.member_epoch
            owned = answer.assignment.topic_partitions
            epoch = self.beat(member_id, answer.member_epoch, owned).member_epoch

    def join(self, member_id: str, instance_id: str | None = None) -> JoinGroupResponse:
        protocol = JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription(self.topic))
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        return self.lab.get(request, JoinGroupResponse)

    def show_join(self, label: str, member_id: str, instance_id: str | None = None) -> int:
        joined = self.join(member_id, instance_id)
        self.lab.note(
            label,
            [
                joined.error_code.name,
                joined.generation_id,
                joined.protocol_type,
                joined.protocol_name,
                joined.leader == joined.member_id,
                len(joined.members),
            ],
        )
        return joined.generation_id

    def show_sync(self, label: str, member_id: str, generation: int) -> None:
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
        )
        answer = self.lab.get(request, SyncGroupResponse)
        given = read_assignment(answer.assignment).assigned_partitions
        count = sum(len(each.partitions) for each in given)
        self.lab.note(label, [answer.error_code.name, answer.protocol_name, count])

    def show_classic_beat(self, label: str, member_id: str, generation: int) -> None:
        request = HeartbeatRequest(
            group_id=self.name, generation_id=generation, member_id=member_id
        )
        self.lab.note(label, self.lab.get(request, HeartbeatResponse).error_code.name)

    def show_commit(self, label: str, member_id: str, generation: int) -> None:
        place = OffsetCommitRequestPartition(committed_offset=1)
        request = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=(OffsetCommitRequestTopic(name=self.topic, partitions=(place,)),),
        )
        answer = self.lab.get(request, OffsetCommitResponse, 9)
        self.lab.note(label, answer.topics[0].partitions[0].error_code.name)

    def show_type(self, label: str) -> None:
        listed = self.lab.get(ListGroupsRequest(), ListGroupsResponse).groups
        (found,) = (each for each in listed if each.group_id == self.name)
        self.lab.note(label, [found.group_type.lower(), found.group_state, found.protocol_type])


def _group(lab: Lab) -> Group:
    return Group(lab, lab.topic(partitions=4), await_coordinator(lab, lab.named()))


def there_and_back(lab: Lab) -> None:
    group = _group(lab)
    epoch = group.settle("new", group.beat("new", 0).member_epoch)
    lab.note("alone", epoch)
    old = group.join("").member_id
    generation = group.show_join("a classic member joins", old)
    group.show_sync("its first sync", old, generation)
    group.show_type("both")
    epoch = group.settle("new", epoch)
    group.show_classic_beat("its heartbeat", old, generation)
    generation = group.show_join("it joins again", old)
    group.show_sync("its second sync", old, generation)
    group.show_commit("its commit", old, generation)
    left = group.beat("new", -1)
    lab.note("the other leaves", [left.error_code.name, left.member_epoch])
    group.show_type("classic again")
    group.show_commit("a commit meanwhile", old, generation)
    group.show_sync("a sync meanwhile", old, generation)
    group.show_classic_beat("told to join", old, generation)
    generation = group.show_join("joins as a leader", old)
    group.show_sync("gives itself nothing", old, generation)
    group.show_type("settled")
    third = group.beat("third", 0)
    lab.note("upgraded", [third.error_code.name, third.member_epoch])
    group.show_type("both again")
    group.show_classic_beat("told of the upgrade", old, generation)
    lab.note("leaves", group.beat("third", -1).error_code.name)
    group.show_type("and classic again")


def a_static_member_changes_its_protocol(lab: Lab) -> None:
    group = _group(lab)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group.name,
        member_id="new",
        instance_id="till",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(group.topic,),
        topic_partitions=(),
    )
    answer = lab.get(request, ConsumerGroupHeartbeatResponse)
    lab.note("alone", [answer.error_code.name, answer.member_epoch])
    group.show_join("comes back with the old protocol", "", "till")
    group.show_type("classic")

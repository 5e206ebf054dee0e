"""Control requests to one broker: order, retries, and unreachable brokers."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ConnectionLost
from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller.controller_channel_manager import (
    LARGEST_BACKLOG,
    RETRY_MS,
    ControllerChannelManager,
)
from headwater.controller.elect_leaders import led_by
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import (
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    ControllerElected,
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import TopicImage
from headwater.metadata.control_requests import (
    FULL,
    INCREMENTAL,
    ReplicaStop,
    control_request_batch,
)
from headwater.metadata.ports.inter_broker_client import OnResponse, Purpose
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headwater.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from headwater.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from headwater.protocol.older_versions import Message
from tests.simulation.labs.cluster_lab import after, broker, cluster_of

RESPONSES = {
    UpdateMetadataRequest: UpdateMetadataResponse,
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    StopReplicaRequest: StopReplicaResponse,
}


def topic(name: str = "t", *replicas: Sequence[int], letter: bytes = b"t") -> TopicImage:
    return TopicImage(
        name=name, topic_id=TopicId(letter * 16), partitions=tuple(map(new_partition, replicas))
    )


class Lab:
    """Channels of brokers 0 and 1, whose requests wait until the test answers them."""

    def __init__(self, *changes: MetadataChange) -> None:
        self.image = after(cluster_of(broker(0), broker(1)), *changes)
        self.asked: list[tuple[NodeId, Message, OnResponse, Failed]] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.answered: list[str] = []
        self.depositions = 0
        self.controller_channels = ControllerChannelManager(
            node_id=NodeId(0),
            inter_broker_client=self,
            call_later=lambda delay_ms, action: self.timers.append((delay_ms, action)),
            timeout_ms=3_000,
            image=lambda: self.image,
            held_by=self._held_by,
            on_response=lambda controller_channel, request, _: self.answered.append(
                f"{controller_channel.broker.node_id} {type(request).__name__}"
            ),
            on_deposed=self._deposed,
        )

    def send_request(
        self,
        node_id: NodeId,
        request: Message,
        *,
        purpose: Purpose,
        timeout_ms: int,
        then: OnResponse,
        on_error: Failed,
    ) -> None:
        assert (purpose, timeout_ms) == (Purpose.CONTROL, 3_000)
        self.asked.append((node_id, request, then, on_error))

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        raise AssertionError(f"unexpected drop of {node_id} {purpose}")

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self.controller_channels.open(self.image.brokers[NodeId(number)])

    def happens(self, *changes: MetadataChange) -> None:
        before, self.image = self.image, after(self.image, *changes)
        self.controller_channels.send_changes(control_request_batch(before, self.image, changes))

    def next(self, code: ErrorCode = ErrorCode.NONE) -> Message:
        """Answer the oldest request and return it."""
        _, request, then, _ = self.asked.pop(0)
        then(replace(RESPONSES[type(request)](), error_code=code))
        return request

    def lose(self) -> Message:
        _, request, _, on_error = self.asked.pop(0)
        on_error(ConnectionLost("lost"))
        return request

    def wake(self) -> None:
        ((delay_ms, action),) = self.timers
        assert delay_ms == RETRY_MS
        self.timers.clear()
        action()

    def settle(self) -> list[Message]:
        found = []
        while self.asked:
            found.append(self.next())
        return found

    def _held_by(self, node_id: NodeId) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name, each in self.image.topics.items()
            for number, partition in enumerate(each.partitions)
            if node_id in partition.replicas
        ]

    def _deposed(self) -> None:
        self.depositions += 1


def partitions_of(request: Message) -> dict[str, list[int]]:
    """The partitions that a request names."""
    assert isinstance(request, UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest)
    return {
        state.topic_name: [each.partition_index for each in state.partition_states]
        for state in request.topic_states
    }


def test_a_broker_gets_the_full_metadata_first_and_then_its_own_roles() -> None:
    lab = Lab(TopicCreated(topic("t", [0], [1, 0], [1])))
    lab.open(1)
    metadata, roles = lab.settle()
    assert isinstance(metadata, UpdateMetadataRequest)
    assert isinstance(roles, LeaderAndIsrRequest)
    assert (metadata.type, roles.type) == (FULL, FULL)
    assert partitions_of(metadata) == {"t": [0, 1, 2]}
    assert partitions_of(roles) == {"t": [1, 2]}
    assert (metadata.broker_epoch, metadata.controller_epoch) == (101, 1)
    assert (metadata.order, roles.order) == (1, 2)
    assert lab.answered == ["1 UpdateMetadataRequest", "1 LeaderAndIsrRequest"]
    assert lab.controller_channels.are_idle


def test_one_request_is_in_flight_at_a_time_and_later_changes_are_combined() -> None:
    lab = Lab()
    lab.open(1)
    lab.happens(TopicCreated(topic("t", [0])))
    lab.happens(TopicCreated(topic("u", [1], letter=b"u")))
    assert len(lab.asked) == 1
    lab.next()
    lab.next()
    metadata, roles = lab.settle()
    assert isinstance(metadata, UpdateMetadataRequest)
    assert metadata.type == INCREMENTAL
    assert partitions_of(metadata) == {"t": [0], "u": [0]}
    assert partitions_of(roles) == {"u": [0]}


def test_a_failed_change_is_sent_again_with_the_current_state() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.open(1)
    lab.settle()
    lab.happens(PartitionsAdded("t", (new_partition([1]),)))
    lab.lose()
    assert not lab.asked
    assert not lab.controller_channels.are_idle
    partition = lab.image.topics["t"].partitions[1]
    lab.happens(PartitionChanged("t", 1, led_by(partition, NodeId(1), partition.isr)))
    assert not lab.asked, "a broker that could not be reached is left alone for a while"
    lab.wake()
    metadata, roles = lab.settle()
    assert (partitions_of(metadata), partitions_of(roles)) == ({"t": [1]}, {"t": [1]})
    assert isinstance(roles, LeaderAndIsrRequest)
    (state,) = roles.topic_states[0].partition_states
    assert (state.leader_epoch, state.is_new) == (1, True)
    assert roles.order > 2


def test_a_round_that_fails_half_way_is_sent_again_from_its_start() -> None:
    lab = Lab()
    lab.open(1)
    lab.next()
    lab.lose()
    lab.wake()
    assert [type(each) for each in lab.settle()] == [UpdateMetadataRequest, LeaderAndIsrRequest]


def test_an_isr_change_is_metadata_and_no_new_role() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.open(1)
    lab.settle()
    state = lab.image.topics["t"].partitions[0]
    lab.happens(PartitionChanged("t", 0, replace(state, isr=(NodeId(0),), partition_epoch=1)))
    (metadata,) = lab.settle()
    assert partitions_of(metadata) == {"t": [0]}


def test_a_removed_replica_is_stopped_where_it_was() -> None:
    """RA-1."""
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.open(0, 1)
    lab.settle()
    left = replace(new_partition([0]), leader_epoch=1, partition_epoch=1)
    lab.happens(PartitionChanged("t", 0, left))
    requests = lab.settle()
    (stop,) = [each for each in requests if isinstance(each, StopReplicaRequest)]
    (state,) = stop.topic_states[0].partition_states
    assert (stop.broker_epoch, state.leader_epoch, state.delete_partition) == (101, 1, True)
    (roles,) = [each for each in requests if isinstance(each, LeaderAndIsrRequest)]
    assert roles.broker_epoch == 100


def test_stop_replica_and_leader_and_isr_replace_each_other() -> None:
    lab = Lab(TopicCreated(topic("t", [0, 1])))
    lab.open(1)
    controller_channel = lab.controller_channels.get(NodeId(1))
    assert controller_channel is not None
    name = TopicPartition("t", 0)
    controller_channel.stop({name: ReplicaStop(0, is_deleted=False)})
    controller_channel.send_leader_and_isr()
    state = lab.image.topics["t"].partitions[0]
    lab.happens(PartitionChanged("t", 0, led_by(state, NodeId(1), state.isr)))
    kinds = [type(each) for each in lab.settle()][2:]
    assert kinds == [UpdateMetadataRequest, LeaderAndIsrRequest]


def test_a_deleted_topic_is_sent_before_or_with_a_new_one_of_its_name() -> None:
    old = topic("t", [0])
    lab = Lab(TopicCreated(old))
    lab.open(1)
    lab.settle()
    lab.happens(TopicDeletionBegun("t"))
    (metadata,) = lab.settle()
    assert isinstance(metadata, UpdateMetadataRequest)
    assert [each.leader for each in metadata.topic_states[0].partition_states] == [-2]
    lab.happens(TopicDeleted("t"), TopicCreated(topic("t", [0], [0], letter=b"u")))
    lab.settle()
    lab.happens(TopicDeletionBegun("t"))
    lab.happens(TopicDeleted("t"))
    lab.happens(TopicCreated(topic("t", [0], letter=b"v")))
    (first, last) = lab.settle()
    assert isinstance(first, UpdateMetadataRequest)
    assert isinstance(last, UpdateMetadataRequest)
    assert first.topic_states[0].partition_states[0].leader == -2
    (state,) = last.topic_states
    assert (state.topic_id, len(state.partition_states)) == (b"v" * 16, 1)


def test_a_topic_deleted_and_created_again_meanwhile_is_sent_as_the_new_one() -> None:
    lab = Lab(TopicCreated(topic("t", [0], [0])))
    lab.open(1)
    lab.next()
    lab.happens(TopicDeletionBegun("t"))
    lab.happens(TopicDeleted("t"))
    lab.happens(TopicCreated(topic("t", [0], letter=b"u")))
    lab.next()
    (metadata,) = lab.settle()
    assert isinstance(metadata, UpdateMetadataRequest)
    (state,) = metadata.topic_states
    assert (state.topic_id, len(state.partition_states)) == (b"u" * 16, 1)


def test_a_stopped_replica_gets_no_leader_and_isr() -> None:
    lab = Lab(TopicCreated(topic("t", [0])))
    lab.open(1)
    lab.next()
    added = replace(new_partition([0, 1]), isr=(NodeId(0),), partition_epoch=1)
    lab.happens(PartitionChanged("t", 0, added))
    left = replace(new_partition([0]), leader_epoch=1, partition_epoch=2)
    lab.happens(PartitionChanged("t", 0, left))
    lab.next()
    assert [type(each) for each in lab.settle()] == [UpdateMetadataRequest, StopReplicaRequest]


def test_a_broker_in_controlled_shutdown_gets_only_the_roles_it_keeps() -> None:
    lab = Lab(TopicCreated(topic("t", [1], [0, 1])), BrokerStopping(NodeId(1)))
    lab.open(1)
    _, roles = lab.settle()
    assert partitions_of(roles) == {"t": [0]}


def test_broker_changes_are_sent_to_the_other_brokers() -> None:
    lab = Lab()
    lab.open(0)
    lab.settle()
    for change in (
        BrokerGone(NodeId(1)),
        BrokerRegistered(broker(1)),
        ControllerElected(NodeId(1)),
    ):
        lab.happens(change)
        (metadata,) = lab.settle()
        assert isinstance(metadata, UpdateMetadataRequest)
        assert (NodeId(1) in lab.image.brokers) == (
            1 in [each.id for each in metadata.live_brokers]
        )


def test_a_long_outage_costs_no_more_than_one_full_update() -> None:
    many = topic("t", *[[0]] * (LARGEST_BACKLOG // 2 + 1))
    lab = Lab(TopicCreated(many))
    lab.open(1)
    lab.next()
    for _ in range(2):
        updates = [
            PartitionChanged("t", number, replace(each, partition_epoch=each.partition_epoch + 1))
            for number, each in enumerate(lab.image.topics["t"].partitions)
        ]
        lab.happens(*updates)
    lab.next()
    metadata, _ = lab.settle()
    assert isinstance(metadata, UpdateMetadataRequest)
    assert metadata.type == FULL


def test_brokers_share_the_states_that_are_the_same_for_all() -> None:
    lab = Lab()
    lab.open(0, 1)
    lab.settle()
    lab.happens(TopicCreated(topic("t", [0], [1])))
    first, second = (request for _, request, _, _ in lab.asked)
    assert isinstance(first, UpdateMetadataRequest)
    assert isinstance(second, UpdateMetadataRequest)
    assert first.topic_states[0] is second.topic_states[0]


@pytest.mark.parametrize(
    ("code", "depositions"),
    [(ErrorCode.STALE_BROKER_EPOCH, 0), (ErrorCode.STALE_CONTROLLER_EPOCH, 1)],
)
def test_a_broker_that_knows_a_later_controller_gets_no_more_requests(
    code: ErrorCode, depositions: int
) -> None:
    lab = Lab()
    lab.open(1)
    lab.next(code)
    lab.happens(TopicCreated(topic("t", [1])))
    assert (lab.asked, lab.timers, lab.answered) == ([], [], [])
    assert lab.depositions == depositions


def test_any_other_error_is_retried() -> None:
    lab = Lab()
    lab.open(1)
    lab.next(ErrorCode.UNKNOWN_SERVER_ERROR)
    lab.wake()
    assert len(lab.settle()) == 2


def test_a_closed_channel_neither_sends_nor_handles_responses() -> None:
    lab = Lab()
    lab.open(0, 1)
    lab.controller_channels.close(NodeId(1))
    lab.happens(TopicCreated(topic("t", [1])))
    lab.controller_channels.close_all()
    lab.next()
    lab.lose()
    assert (lab.asked, lab.timers, lab.answered) == ([], [], [])

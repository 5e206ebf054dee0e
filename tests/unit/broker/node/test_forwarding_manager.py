"""Brokers of one cluster: the controller, and forwarding to it."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ConnectionLost, ProtocolError
from headwater.common.ids import NodeId
from headwater.metadata.changes import TopicDeleted, apply
from headwater.metadata.cluster_image import NO_CONTROLLER
from headwater.network.request_service import ClientAddress
from headwater.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headwater.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headwater.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headwater.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.simulation.fakes.shared_metadata_store import SharedStore
from tests.simulation.labs.broker_lab import Peer
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.cluster_node_lab import ClusterNodeLab, MemberNode

METADATA_OF_T = MetadataRequest(topics=(MetadataRequestTopic(name="t"),))


def create(name: str, partitions: int = 3, factor: int = 3) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=(topic(name, partitions, factor),), timeout_ms=10_000)


def code_of(response: CreateTopicsResponse) -> ErrorCode:
    (result,) = response.topics
    return result.error_code


def test_cluster_has_one_controller_known_to_all() -> None:
    lab = ClusterNodeLab(3)
    assert len(lab.others) == 2
    assert {node.image.controller_id for node in lab.nodes} == {lab.controller.node_id}
    assert all(sorted(node.image.brokers) == [0, 1, 2] for node in lab.nodes)
    assert all(node.image.features for node in lab.nodes), "the first controller finalizes them"


def test_topic_can_be_created_through_any_broker() -> None:
    lab = ClusterNodeLab(3)
    for number, node in enumerate(lab.nodes):
        response = node.ask(create(f"topic-{number}"), CreateTopicsResponse)
        assert code_of(response) is ErrorCode.NONE
        assert code_of(node.ask(create(f"topic-{number}"), CreateTopicsResponse)) is (
            ErrorCode.TOPIC_ALREADY_EXISTS
        )
    for node in lab.nodes:
        assert sorted(node.image.topics) == ["topic-0", "topic-1", "topic-2"]
        assert all(each.leader_state or each.log for each in node.partitions)


def test_request_waits_without_a_controller_and_is_answered_by_the_next_one() -> None:
    lab = ClusterNodeLab(3)
    former = lab.controller
    former.crash()
    sent = lab.others[0].send(create("t", factor=2))
    lab.run(100)
    assert not sent.is_answered
    assert sent.is_held
    lab.run(lab.store.session_timeout_ms + 3_000)
    assert code_of(sent.answer(CreateTopicsResponse)) is ErrorCode.NONE
    assert lab.controller is not former


def test_request_of_a_deposed_controller_is_served_by_the_next() -> None:
    """Java's admin client retries by itself; librdkafka's would fail with NOT_CONTROLLER."""
    lab = ClusterNodeLab(3)
    former = lab.controller
    former.session.cut()
    sent = former.send(create("t", factor=2))
    lab.run(lab.store.session_timeout_ms + 3_000)
    former.session.heal()
    lab.run(3_000)
    assert lab.controller is not former
    assert code_of(sent.answer(CreateTopicsResponse)) is ErrorCode.NONE


def test_request_without_a_controller_times_out() -> None:
    lab = ClusterNodeLab(2, texts={"request.timeout.ms": "3000"})
    waiting = lab.others[0]
    lab.network.isolate(waiting.node_id)
    sent = waiting.send(create("t", factor=1))
    lab.run(8_000)
    assert code_of(sent.answer(CreateTopicsResponse)) is ErrorCode.REQUEST_TIMED_OUT


def test_auto_created_topics_and_producer_ids_come_from_the_controller() -> None:
    lab = ClusterNodeLab(3, texts={"default.replication.factor": "3"})
    for number, node in enumerate(lab.nodes):
        name = f"first-{number}"
        wanted = MetadataRequest(
            topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=True
        )
        (found,) = node.ask(wanted, MetadataResponse).topics
        assert (found.error_code, len(found.partitions[0].replica_nodes)) == (ErrorCode.NONE, 3)
    ids = [
        node.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse).producer_id
        for node in lab.nodes
    ]
    assert sorted(each // 1_000 for each in ids) == [0, 1, 2], "each broker has its own block"


def test_every_broker_finds_the_same_coordinator() -> None:
    lab = ClusterNodeLab(3)
    request = FindCoordinatorRequest(coordinator_keys=("g",))
    lab.others[0].ask(request, FindCoordinatorResponse)
    found = {
        node.ask(request, FindCoordinatorResponse).coordinators[0].node_id for node in lab.nodes
    }
    assert len(found) == 1
    assert found != {-1}


@pytest.mark.parametrize(
    ("key_type", "internal", "setting"),
    [
        (0, "__consumer_offsets", "offsets.topic.replication.factor"),
        (1, "__transaction_state", "transaction.state.log.replication.factor"),
    ],
)
def test_coordinator_whose_topic_cannot_be_created_is_unavailable_with_the_reason(
    key_type: int, internal: str, setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab = ClusterNodeLab(2, texts={setting: "3"})
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g", "h"))
    why = "replication factor 3 is not between 1 and the number of live brokers (2)"
    reason = f"{internal} cannot be created: {why} ({setting})"
    for node in lab.nodes * 3:
        for found in node.ask(request, FindCoordinatorResponse).coordinators:
            assert (found.error_code, found.error_message, found.node_id) == (
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                reason,
                -1,
            )
    logged = f"Coordinator not available: topic={internal} reason={reason}"
    # Once for each of the two brokers.
    warnings = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert warnings == [logged] * 2


def test_coordinator_without_a_leader_is_unavailable_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    texts = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    lab = ClusterNodeLab(3, texts=texts)
    request = FindCoordinatorRequest(coordinator_keys=("g",))
    (found,) = lab.nodes[0].ask(request, FindCoordinatorResponse).coordinators
    lab.nodes[found.node_id].crash()
    lab.run(lab.store.session_timeout_ms + 3_000)
    asked = next(node for node in lab.nodes if node.node_id != found.node_id)
    (refused,) = asked.ask(request, FindCoordinatorResponse).coordinators
    reason = f"partition 0 of __consumer_offsets has no leader (replicas {found.node_id})"
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        reason,
    )
    assert f"Coordinator not available: topic=__consumer_offsets reason={reason}" in caplog.text


def test_reassignments_are_listed_by_any_broker_as_the_controller_knows_them() -> None:
    lab = ClusterNodeLab(2)
    response = lab.others[0].ask(
        ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse
    )
    assert response.error_code is ErrorCode.NONE


def test_envelope_to_a_broker_that_is_not_controller_is_rejected() -> None:
    lab = ClusterNodeLab(2)
    envelope = EnvelopeRequest(request_data=b"", client_host_address=bytes(4))
    response = lab.others[0].ask(envelope, EnvelopeResponse)
    assert response.error_code is ErrorCode.NOT_CONTROLLER


def test_envelope_may_contain_only_controller_apis() -> None:
    lab = ClusterNodeLab(1)
    heartbeat = b"\x00\x0c\x00\x00\x00\x00\x00\x01\xff\xff"
    envelope = EnvelopeRequest(request_data=heartbeat, client_host_address=bytes(4))
    response = lab.controller.ask(envelope, EnvelopeResponse)
    assert response.error_code is ErrorCode.INVALID_REQUEST


def test_inter_broker_apis_are_rejected_on_client_listeners() -> None:
    lab = ClusterNodeLab(1)
    client = Peer()
    client.address = ClientAddress(listener="CLIENTS", peer_host="192.0.2.1", peer_port=1)
    for request in (UpdateMetadataRequest(), AlterPartitionRequest(), EnvelopeRequest()):
        with pytest.raises(ProtocolError, match="not the inter-broker listener"):
            lab.controller.send(request, peer=client)
    # Everything else is served there.
    lab.controller.send(DescribeClusterRequest(), peer=client).answer(DescribeClusterResponse)


def test_alter_partition_and_controlled_shutdown_need_the_controller() -> None:
    lab = ClusterNodeLab(2)
    other = lab.others[0]
    assert other.ask(AlterPartitionRequest(), AlterPartitionResponse).error_code is (
        ErrorCode.NOT_CONTROLLER
    )
    assert other.ask(ControlledShutdownRequest(), ControlledShutdownResponse).error_code is (
        ErrorCode.NOT_CONTROLLER
    )


def leave(lab: ClusterNodeLab, node: MemberNode) -> ControlledShutdownResponse:
    request = ControlledShutdownRequest(
        broker_id=node.node_id, broker_epoch=node.membership.broker_epoch
    )
    return lab.controller.ask(request, ControlledShutdownResponse)


def test_broker_in_controlled_shutdown_leads_nothing() -> None:
    """CS-1"""
    lab = ClusterNodeLab(3)
    lab.controller.ask(create("t", partitions=6), CreateTopicsResponse)
    leaver = lab.others[0]
    assert leave(lab, leaver).remaining_partitions == ()
    for node in lab.nodes:
        leaders = {each.leader for each in node.image.topics["t"].partitions}
        assert leaver.node_id not in leaders
    leaver.close()
    lab.run(1_000)
    assert leaver.node_id not in lab.controller.image.brokers


def test_lost_session_makes_the_broker_register_again_and_another_controller_be_elected() -> None:
    lab = ClusterNodeLab(3)
    lab.controller.ask(create("t", partitions=6), CreateTopicsResponse)
    former = lab.controller
    epoch = former.membership.broker_epoch
    former.session.expire()
    lab.run(3_000)
    assert former.membership.broker_epoch > epoch
    controller = lab.controller
    assert controller.membership.controller is not None
    assert controller.membership.controller.image.version.controller_epoch == 2
    for node in lab.nodes:
        assert sorted(node.image.brokers) == [0, 1, 2]
        assert node.image.controller_id == controller.node_id
        assert all(each.leader >= 0 for each in node.image.topics["t"].partitions)


@pytest.mark.parametrize("seed", range(1, 7))
def test_reregistered_broker_rejoins_the_isr_without_new_records(
    seed: int,
) -> None:
    """ISR-3: fetches under its former registration do not count, and nothing new is there."""
    lab = ClusterNodeLab(3, seed=seed)
    lab.controller.ask(create("t", partitions=6), CreateTopicsResponse)
    lab.others[0].session.expire()
    lab.run(5_000)
    for partition in lab.controller.image.topics["t"].partitions:
        assert sorted(partition.isr) == [0, 1, 2]


def test_controller_without_the_store_is_replaced_and_notices_when_it_returns() -> None:
    lab = ClusterNodeLab(3)
    former = lab.controller
    former.session.cut()
    lab.run(lab.store.session_timeout_ms + 3_000)
    deciding = [node for node in lab.nodes if node.membership.controller]
    assert len(deciding) == 2, "it cannot know yet"
    former.session.heal()
    lab.run(3_000)
    assert lab.controller is not former
    assert former.image.controller_id == lab.controller.node_id


def test_closed_membership_stands_for_no_election() -> None:
    lab = ClusterNodeLab(2)
    former = lab.controller
    former.close()
    lab.run(2_000)
    assert lab.controller is not former
    assert lab.controller.image.controller_id not in (NO_CONTROLLER, former.node_id)
    assert [*lab.controller.image.brokers] == [NodeId(1 - former.node_id)]


def test_topic_recreated_while_a_broker_was_down_is_replicated_from_the_start() -> None:
    """TI-1: the folder has another topic id, though the name is the same."""
    lab = ClusterNodeLab(3)
    lab.controller.ask(create("t", partitions=1), CreateTopicsResponse)
    lab.controller.ask(create("gone", partitions=1), CreateTopicsResponse)
    absent = lab.others[0]
    absent.crash()
    lab.run(lab.store.session_timeout_ms + 1_000)
    former_id = lab.controller.image.topics["t"].topic_id
    # A topic is deleted with its last replica, so these are different topics for the returning
    # broker.
    assert isinstance(lab.store, SharedStore)
    lab.store.image = apply(
        lab.store.image, [TopicDeleted("t"), TopicDeleted("gone")], lab.store.image.version
    )
    lab.controller.session.expire()
    lab.run(3_000)
    lab.controller.ask(create("t", partitions=1, factor=2), CreateTopicsResponse)
    assert lab.controller.image.topics["t"].topic_id != former_id
    absent.start()
    lab.run(lab.store.session_timeout_ms + 3_000)
    assert "gone" not in absent.image.topics
    assert [str(name) for name in absent.broker.directories.partitions()] in ([], ["t-0"])
    for name in absent.broker.directories.partitions():
        directory = absent.broker.directories.directory_of(name)
        assert directory.topic_id(name) == absent.image.topics["t"].topic_id


def test_broker_whose_session_expires_before_registration_still_starts() -> None:
    """It waits for its former session to expire, and loses the new one meanwhile."""
    lab = ClusterNodeLab(3)
    node = lab.others[0]
    node.crash()
    node.start()
    lab.run(1_000)
    assert not node.is_serving
    node.session.expire()
    lab.run(lab.store.session_timeout_ms + 2_000)
    assert node.is_serving
    assert sorted(lab.controller.image.brokers) == [0, 1, 2]


def test_idle_follower_rejoins_the_isr_after_a_lost_session() -> None:
    """ISR-3: it keeps fetching in the same fetch session, with another broker epoch."""
    lab = ClusterNodeLab(3)
    node = lab.others[0]
    node.ask(create("t"), CreateTopicsResponse)
    node.session.expire()
    # Leaders check their followers every half of `replica.lag.time.max.ms`.
    lab.run(40_000)
    states = lab.store.image.topics["t"].partitions
    assert [sorted(state.isr) for state in states] == [[0, 1, 2]] * 3


def test_broker_without_metadata_does_not_answer_metadata_requests() -> None:
    """The response would say that no topic exists, and clients may believe it."""
    lab = ClusterNodeLab(3)
    lab.nodes[0].ask(create("t"), CreateTopicsResponse)
    returned = lab.others[0]
    returned.crash()
    lab.run(lab.store.session_timeout_ms + 1_000)
    returned.start()
    while not returned.is_serving:
        lab.run(1)
    assert not returned.membership.metadata_cache.has_metadata
    with pytest.raises(ConnectionLost):
        returned.send(METADATA_OF_T)
    lab.run(5_000)
    (found,) = returned.ask(METADATA_OF_T, MetadataResponse).topics
    assert found.error_code is ErrorCode.NONE


def test_broker_without_a_session_still_answers_metadata_requests() -> None:
    lab = ClusterNodeLab(3)
    lab.nodes[0].ask(create("t"), CreateTopicsResponse)
    sleeper = lab.others[0]
    sleeper.membership.session_lost()
    (found,) = sleeper.ask(METADATA_OF_T, MetadataResponse).topics
    assert found.error_code is ErrorCode.NONE


def test_stale_leader_does_not_deny_a_later_epoch() -> None:
    """EP-4: it cannot know, and the client would take it for log truncation."""
    lab = ClusterNodeLab(3)
    lab.nodes[0].ask(create("t", partitions=1), CreateTopicsResponse)
    leader = lab.nodes[lab.nodes[0].image.topics["t"].partitions[0].leader]
    asked = (OffsetForLeaderPartition(leader_epoch=0), OffsetForLeaderPartition(leader_epoch=1))
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(OffsetForLeaderTopic(topic="t", partitions=asked),)
    )
    (answer,) = leader.ask(request, OffsetForLeaderEpochResponse).topics
    assert [(each.error_code, each.end_offset) for each in answer.partitions] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1),
    ]

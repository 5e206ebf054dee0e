"""Transactions whose coordinator or partitions are on another broker."""

from dataclasses import replace

from headwater.broker.coordinators.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from headwater.broker.coordinators.pending_verifications import Codes, FirstBatches
from headwater.broker.coordinators.transaction_marker_channel import TransactionMarkerChannel
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ConnectionLost
from headwater.common.ids import NodeId, ProducerId, TopicPartition
from headwater.coordinator.runtime.coordinator_effects import (
    MarkerOutcome,
    MarkersAnswered,
    SendMarkers,
    TransactionalProducer,
)
from headwater.coordinator.transaction.add_partitions_to_txn import uniform_result
from headwater.metadata.changes import BrokerRegistered, PartitionChanged
from headwater.metadata.cluster_image import NO_LEADER, BrokerRegistration
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from headwater.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headwater.replication.transaction_verification import VerificationRequest
from tests.simulation.fakes.simple_inter_broker_client import SimpleInterBrokerClient
from tests.simulation.labs.broker_lab import BrokerLab
from tests.simulation.labs.transaction_client import LabProducer

OTHER = NodeId(5)
HERE, THERE, GONE = (TopicPartition("t", number) for number in range(3))
SENDING = SendMarkers(
    transactional_id="x",
    send_id=1,
    producer_id=ProducerId(7),
    producer_epoch=0,
    coordinator_epoch=4,
    client_version=2,
    is_commit=True,
    partitions=(HERE, THERE, GONE),
)
BATCHES = FirstBatches(
    transactional_id="x",
    producer=TransactionalProducer(ProducerId(7), 3),
    partitions=(HERE,),
    verification_request=VerificationRequest.ADD,
)


def lead(lab: BrokerLab, partition: TopicPartition, leader: NodeId) -> None:
    state = lab.broker.image.partition(*partition)
    assert state is not None
    moved = replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)
    lab.change(PartitionChanged(*partition, moved))


class Lab:
    """A broker; another one leads the second partition of a topic, and its coordinator."""

    def __init__(self) -> None:
        self.lab = BrokerLab({"transaction.state.log.num.partitions": "1"})
        self.lab.change(BrokerRegistered(BrokerRegistration(node_id=OTHER, epoch=1)))
        self.lab.create("t", 2)
        lead(self.lab, THERE, OTHER)
        self.inter_broker_client = SimpleInterBrokerClient()
        self.told: list[MarkersAnswered] = []
        self.codes: list[Codes] = []
        broker = self.lab.broker
        self.sending = TransactionMarkerChannel(
            node_id=broker.node_id,
            writing=broker.markers,
            image=lambda: broker.image,
            clock=broker.clock,
            inter_broker_client=self.inter_broker_client,
            timeout_ms=9_000,
        )
        self.questions = AddPartitionsToTxnManager(
            broker.static,
            coordinator=broker.transactions,
            clock=broker.clock,
            timer=broker.timer,
            partitions=broker.partitions,
            image=lambda: broker.image,
            inter_broker_client=self.inter_broker_client,
        )

    def outcomes(self) -> dict[TopicPartition, MarkerOutcome]:
        pairs = [pair for told in self.told for pair in told.outcomes]
        assert len(pairs) == len(dict(pairs)), "each partition is told once"
        return dict(pairs)

    def coordinate_elsewhere(self) -> None:
        LabProducer(self.lab).begin()
        lead(self.lab, TopicPartition("__transaction_state", 0), OTHER)


def written(partition: TopicPartition, code: ErrorCode) -> WriteTxnMarkersResponse:
    result = WritableTxnMarkerPartitionResult(partition_index=partition.partition, error_code=code)
    topic = WritableTxnMarkerTopicResult(name=partition.topic, partitions=(result,))
    marker = WritableTxnMarkerResult(producer_id=7, topics=(topic,))
    return WriteTxnMarkersResponse(markers=(marker,))


def test_markers_go_to_the_leaders_of_their_partitions() -> None:
    """TX-6: to this broker, to another one, and nowhere for deleted partitions."""
    lab = Lab()
    lab.sending.send(SENDING, lab.told.append)
    assert lab.outcomes() == {
        HERE: MarkerOutcome.WRITTEN,
        GONE: MarkerOutcome.PARTITION_DELETED,
    }
    (asked,) = lab.inter_broker_client.asked
    assert (asked.node_id, asked.purpose, asked.timeout_ms) == (OTHER, Purpose.TRANSACTION, 9_000)
    assert isinstance(asked.request, WriteTxnMarkersRequest)
    (marker,) = asked.request.markers
    assert [each.partition_indexes for each in marker.topics] == [(1,)]
    assert marker.client_version == 2
    asked.then(written(THERE, ErrorCode.NONE))
    assert lab.outcomes()[THERE] is MarkerOutcome.WRITTEN


def test_marker_is_retried_if_the_leader_does_not_answer() -> None:
    lab = Lab()
    lab.sending.send(replace(SENDING, partitions=(THERE,)), lab.told.append)
    lab.inter_broker_client.asked[0].on_error(ConnectionLost("gone"))
    assert lab.outcomes() == {THERE: MarkerOutcome.FAILED}


def test_marker_waits_for_a_partition_without_leader() -> None:
    lab = Lab()
    lead(lab.lab, THERE, NO_LEADER)
    lab.sending.send(replace(SENDING, partitions=(THERE,)), lab.told.append)
    assert lab.outcomes() == {THERE: MarkerOutcome.FAILED}
    assert not lab.inter_broker_client.asked


def test_markers_without_an_inter_broker_client_are_retried() -> None:
    lab = Lab()
    alone = replace(lab.sending, inter_broker_client=None)
    alone.send(replace(SENDING, partitions=(THERE,)), lab.told.append)
    assert lab.outcomes() == {THERE: MarkerOutcome.FAILED}


def test_verification_is_sent_to_the_coordinators_broker() -> None:
    """TX-13."""
    lab = Lab()
    lab.coordinate_elsewhere()
    lab.questions.add_or_verify(BATCHES, lab.codes.append)
    (asked,) = lab.inter_broker_client.asked
    assert (asked.node_id, asked.purpose) == (OTHER, Purpose.TRANSACTION)
    assert isinstance(asked.request, AddPartitionsToTxnRequest)
    (transaction,) = asked.request.transactions
    assert not transaction.verify_only
    assert lab.codes == []
    result = uniform_result(transaction, ErrorCode.PRODUCER_FENCED)
    asked.then(AddPartitionsToTxnResponse(results_by_transaction=(result,)))
    assert lab.codes == [{HERE: ErrorCode.PRODUCER_FENCED}]


def test_verification_errors_of_a_remote_coordinator() -> None:
    lab = Lab()
    lab.coordinate_elsewhere()
    for response, code in (
        (
            AddPartitionsToTxnResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
            "UNKNOWN_SERVER_ERROR",
        ),
        # The client is not responsible for the brokers' authorization.
        (
            AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            "INVALID_TXN_STATE",
        ),
        (AddPartitionsToTxnResponse(), "INVALID_TXN_STATE"),
    ):
        lab.codes.clear()
        lab.questions.add_or_verify(BATCHES, lab.codes.append)
        lab.inter_broker_client.asked.pop().then(response)
        assert lab.codes == [{HERE: ErrorCode[code]}]
    lab.codes.clear()
    lab.questions.add_or_verify(BATCHES, lab.codes.append)
    lab.inter_broker_client.asked.pop().on_error(ConnectionLost("gone"))
    assert lab.codes == [{HERE: ErrorCode.NETWORK_EXCEPTION}]


def test_verification_without_a_coordinator_fails() -> None:
    lab = Lab()
    lab.questions.add_or_verify(BATCHES, lab.codes.append)
    lab.coordinate_elsewhere()
    lead(lab.lab, TopicPartition("__transaction_state", 0), NO_LEADER)
    lab.questions.add_or_verify(BATCHES, lab.codes.append)
    assert lab.codes == [{HERE: ErrorCode.COORDINATOR_NOT_AVAILABLE}] * 2

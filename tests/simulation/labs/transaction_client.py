"""A transactional producer on a broker without a socket, one request at a time."""

from dataclasses import dataclass

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.labs.broker_lab import START_MS, BrokerLab, Sent

OLD, ABORTABLE, NEW = 10, 11, 12
"""Versions of Produce: without TRANSACTION_ABORTABLE, with it, and for transaction version 2."""

TRANSACTIONS, GROUPS = 1, 0
TIMEOUT_MS = 60_000


@dataclass(slots=True)
class LabProducer:
    """Sequences are set by the test."""

    lab: BrokerLab
    name: str = "x"
    producer_id: int = -1
    epoch: int = -1

    def begin(self) -> ErrorCode:
        """Take over the transactional id."""
        find(self.lab, self.name, TRANSACTIONS)
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS
        )
        answer = self.lab.ask(request, InitProducerIdResponse)
        if answer.error_code is ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    def add(self, topic: str, *partitions: int) -> list[ErrorCode]:
        asked = AddPartitionsToTxnTopic(name=topic, partitions=partitions)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(asked,),
        )
        request = AddPartitionsToTxnRequest(transactions=(transaction,))
        (result,) = self.lab.ask(request, AddPartitionsToTxnResponse, 3).results_by_transaction
        return [each.partition_error_code for each in result.topic_results[0].results_by_partition]

    def batch(self, value: bytes, sequence: int) -> memoryview:
        return memoryview(
            bytearray(
                build_batch(
                    [Record(key=b"k", value=value, timestamp=START_MS)],
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    base_sequence=sequence,
                    is_transactional=True,
                )
            )
        )

    def send(
        self,
        topic: str,
        sequence: int,
        version: int = NEW,
        *,
        value: bytes = b"v",
        partitions: tuple[int, ...] = (0,),
    ) -> Sent:
        """One batch to each partition."""
        data = tuple(
            PartitionProduceData(index=number, records=self.batch(value, sequence))
            for number in partitions
        )
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            topic_data=(TopicProduceData(name=topic, partition_data=data),),
        )
        return self.lab.send(request, version)

    def end(self, *, committed: bool = True, version: int = 5) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        answer = self.lab.ask(request, EndTxnResponse, version)
        if version >= 5 and answer.error_code is ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    def commit_offset(self, group: str, topic: str, offset: int, version: int = 5) -> Sent:
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(place,)),),
        )
        return self.lab.send(request, version)

    def marker(
        self, topic: str, *partitions: int, client_version: int = 0
    ) -> WriteTxnMarkersRequest:
        """WriteTxnMarkers to abort, as from a coordinator or, without a version, from a tool."""
        marker = WritableTxnMarker(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=partitions),),
            client_version=client_version,
        )
        return WriteTxnMarkersRequest(markers=(marker,))

    @property
    def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=(self.name,))
        answer = self.lab.ask(request, DescribeTransactionsResponse)
        return answer.transaction_states[0].transaction_state


def find(lab: BrokerLab, key: str, key_type: int) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
    lab.ask(request, FindCoordinatorResponse)


def codes(sent: Sent) -> list[ErrorCode]:
    return [each.error_code for each in results(sent)]


def results(sent: Sent) -> list[PartitionProduceResponse]:
    topics = sent.answer(ProduceResponse).responses
    return [each for topic in topics for each in topic.partition_responses]


def fetching(topic: str, *, wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    """Fetch with read_committed from the start."""
    place = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        isolation_level=1,
        topics=(FetchTopic(topic=topic, partitions=(place,)),),
    )


def stable_offset(lab: BrokerLab, topic: str, partition: int = 0) -> int:
    hosted = lab.broker.partitions.find(topic, partition)
    assert hosted is not None
    return hosted.open_log().last_stable_offset


def end_offset(lab: BrokerLab, topic: str, partition: int = 0) -> int:
    hosted = lab.broker.partitions.find(topic, partition)
    assert hosted is not None
    return hosted.open_log().end_offset

"""Build the requests of transactions, and reduce their responses to one error."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.client.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from headwater.client.producer.transactions.producer_id_and_epoch import ProducerIdAndEpoch
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.end_txn import EndTxnRequest
from headwater.protocol.messages.init_producer_id import InitProducerIdRequest
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)


def init(
    transactional_id: str, timeout_ms: int, identity: ProducerIdAndEpoch
) -> InitProducerIdRequest:
    """Initialize, or bump the epoch of an identity, which must be the current one."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
    )


def add_partitions(
    transactional_id: str, identity: ProducerIdAndEpoch, places: Sequence[tuple[str, int]]
) -> AddPartitionsToTxnRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        topics=tuple(
            AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
            for name, partitions in by_topic.items()
        ),
    )
    return AddPartitionsToTxnRequest(transactions=(transaction,))


def add_offsets(
    transactional_id: str, identity: ProducerIdAndEpoch, group_id: str
) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )


def offset_commit(
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> TxnOffsetCommitRequest:
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), position in offsets.items():
        by_topic.setdefault(topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=tuple(
            TxnOffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
            for name, partitions in by_topic.items()
        ),
    )


def end(transactional_id: str, identity: ProducerIdAndEpoch, *, is_commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=is_commit,
    )


def added_partitions_error(response: AddPartitionsToTxnResponse) -> ErrorCode:
    """The error of the request: either all partitions are added or none."""
    return _worst(
        partition.partition_error_code
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for partition in topic.results_by_partition
    )


def committed_offsets_error(response: TxnOffsetCommitResponse) -> ErrorCode:
    return _worst(
        partition.error_code for topic in response.topics for partition in topic.partitions
    )


def _worst(codes: Iterable[ErrorCode]) -> ErrorCode:
    """A fatal error if there is one, else any; OPERATION_NOT_ATTEMPTED comes last."""
    errors = [code for code in codes if code is not ErrorCode.NONE]
    errors.sort(key=lambda code: (code is ErrorCode.OPERATION_NOT_ATTEMPTED, code.is_retriable))
    return errors[0] if errors else ErrorCode.NONE

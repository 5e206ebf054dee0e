"""Decide AddPartitionsToTxn and AddOffsetsToTxn: partitions of a transaction.

AddPartitionsToTxn comes from clients up to version 3, and from partition leaders since (KIP-890):
they verify the first batch of an older client, and add the partition for a newer one, which does
not do so itself. AddOffsetsToTxn adds the partition with a group's offsets.
"""

from collections.abc import Callable, Iterator
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.coordinator.transaction.transaction_metadata import (
    EPOCH_BUMPS,
    OLD_CLIENTS,
    TransactionMetadata,
)
from headwater.coordinator.transaction.transaction_states import TransactionState
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE_VERSION: Final = 2
"""Older clients of AddPartitionsToTxn and AddOffsetsToTxn do not know PRODUCER_FENCED."""

_FROM_LEADERS_SINCE: Final = 4

CodeOf = Callable[[TopicPartition], ErrorCode]


def client_version_of(request_version: int) -> int:
    """Return the transaction version of a client, by the version of this request."""
    return EPOCH_BUMPS if request_version >= _FROM_LEADERS_SINCE else OLD_CLIENTS


def partitions_of(transaction: AddPartitionsToTxnTransaction) -> Iterator[TopicPartition]:
    for topic in transaction.topics:
        for number in topic.partitions:
            yield TopicPartition(topic.name, number)


def result_of(
    transaction: AddPartitionsToTxnTransaction, code_of: CodeOf
) -> AddPartitionsToTxnResult:
    """Return a result with a code per partition."""
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=number,
                        partition_error_code=code_of(TopicPartition(topic.name, number)),
                    )
                    for number in topic.partitions
                ),
            )
            for topic in transaction.topics
        ),
    )


def uniform_result(
    transaction: AddPartitionsToTxnTransaction, code: ErrorCode
) -> AddPartitionsToTxnResult:
    return result_of(transaction, lambda _: code)


def reject_invalid_partitions(
    transaction: AddPartitionsToTxnTransaction, error_of: CodeOf
) -> AddPartitionsToTxnResult | None:
    """Reject all partitions of a transaction if one is unknown or unauthorized (TX-4).

    `why_not` returns NONE for a partition that may be added. None means that all may.
    """
    codes = {partition: error_of(partition) for partition in partitions_of(transaction)}
    if not any(codes.values()):
        return None
    return result_of(
        transaction, lambda partition: codes[partition] or ErrorCode.OPERATION_NOT_ATTEMPTED
    )


def add(
    current: TransactionMetadata | None,
    added: tuple[TopicPartition, ...],
    *,
    producer_id: int,
    producer_epoch: int,
    client_version: int,
    now_ms: int,
) -> TransactionMetadata | ErrorCode:
    """Add partitions; NONE if they are already added, else the error (TX-4)."""
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.state.is_prepared:
        # Checked first, as in `end_txn`: a new producer id may not be in force yet.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.state is TransactionState.ONGOING and set(added) <= set(current.partitions):
        return ErrorCode.NONE
    return current.with_partitions(added, client_version=client_version, now_ms=now_ms)


def verify(current: TransactionMetadata | None, *, producer_id: int, producer_epoch: int) -> CodeOf:
    """Return what to answer a leader that verifies its partition (TX-13)."""
    if current is None or current.producer_id != producer_id:
        return lambda _: ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer_epoch:
        return lambda _: ErrorCode.PRODUCER_FENCED
    if current.state.is_prepared:
        return lambda _: ErrorCode.CONCURRENT_TRANSACTIONS
    added_partitions = set(current.partitions)
    return lambda partition: (
        ErrorCode.NONE if partition in added_partitions else ErrorCode.TRANSACTION_ABORTABLE
    )

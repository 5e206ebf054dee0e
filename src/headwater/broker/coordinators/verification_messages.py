"""AddPartitionsToTxn requests of partition leaders and their responses."""

from collections.abc import Sequence

from headwater.broker.coordinators.pending_verifications import Codes, FirstBatches
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


def request_of(batches: FirstBatches) -> AddPartitionsToTxnRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, number in batches.partitions:
        by_topic.setdefault(topic, []).append(number)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=batches.transactional_id,
        producer_id=batches.producer.producer_id,
        producer_epoch=batches.producer.epoch,
        verify_only=batches.verification_request.is_verify_only,
        topics=tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic.items()
        ),
    )
    return AddPartitionsToTxnRequest(transactions=(transaction,))


def codes_of(batches: FirstBatches, outcome: Outcome) -> Codes:
    """Return the error code of each partition; INVALID_TXN_STATE if it is missing."""
    if isinstance(outcome, ErrorCode):
        return _all(batches.partitions, outcome)
    assert isinstance(outcome, AddPartitionsToTxnResponse)
    if outcome.error_code:
        # The client is not responsible for the brokers' authorization, as in Kafka 4.1.
        is_unknown = outcome.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        code = ErrorCode.INVALID_TXN_STATE if is_unknown else outcome.error_code
        return _all(batches.partitions, code)
    codes = _all(batches.partitions, ErrorCode.INVALID_TXN_STATE)
    for result in outcome.results_by_transaction:
        for topic in result.topic_results:
            for each in topic.results_by_partition:
                partition = TopicPartition(topic.name, each.partition_index)
                codes[partition] = each.partition_error_code
    return codes


def _all(partitions: Sequence[TopicPartition], code: ErrorCode) -> dict[TopicPartition, ErrorCode]:
    return dict.fromkeys(partitions, code)

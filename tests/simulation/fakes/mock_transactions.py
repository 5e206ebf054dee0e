"""A transaction coordinator for the scripted cluster: it keeps a journal and fences.

Note: it does not hide records of open transactions. Tests check the journal for what was committed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.mock_broker import Handler, MockBroker

_BUMPS_SINCE = 5


@dataclass(slots=True)
class _Known:
    producer_id: int
    epoch: int
    partitions: list[tuple[str, int]] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


class MockTransactions:
    """All transactional ids of a cluster."""

    def __init__(self, handlers: dict[ApiKey, Handler], new_id: Callable[[], int]) -> None:
        self._new_id = new_id
        self.known: dict[str, _Known] = {}
        # What happened, in order: ("commit", partitions, groups) and the like.
        self.diary: list[tuple[str, list[tuple[str, int]], list[str]]] = []
        self.offsets: dict[tuple[str, str, int], int] = {}
        handlers[ApiKey.ADD_PARTITIONS_TO_TXN] = self._add_partitions
        handlers[ApiKey.ADD_OFFSETS_TO_TXN] = self._add_offsets
        handlers[ApiKey.TXN_OFFSET_COMMIT] = self._commit_offsets
        handlers[ApiKey.END_TXN] = self._end

    def init(self, request: init_producer_id.InitProducerIdRequest) -> Message:
        assert request.transactional_id is not None
        known = self.known.get(request.transactional_id)
        if known is None:
            known = self.known[request.transactional_id] = _Known(self._new_id(), 0)
        elif request.producer_id >= 0 and request.producer_epoch != known.epoch:
            return init_producer_id.InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
        else:
            known.epoch += 1
        return init_producer_id.InitProducerIdResponse(
            producer_id=known.producer_id, producer_epoch=known.epoch
        )

    def _judge(self, transactional_id: str, epoch: int) -> ErrorCode:
        known = self.known.get(transactional_id)
        if known is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if epoch == known.epoch else ErrorCode.PRODUCER_FENCED

    def _add_partitions(
        self,
        broker: MockBroker,
        request: add_partitions_to_txn.AddPartitionsToTxnRequest,
        version: int,
    ) -> Message:
        del broker, version
        (transaction,) = request.transactions
        code = self._judge(transaction.transactional_id, transaction.producer_epoch)
        if not code:
            known = self.known[transaction.transactional_id]
            known.partitions += [
                (topic.name, partition)
                for topic in transaction.topics
                for partition in topic.partitions
            ]
        results = tuple(
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in transaction.topics
        )
        return add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_transaction=(
                add_partitions_to_txn.AddPartitionsToTxnResult(topic_results=results),
            )
        )

    def _add_offsets(
        self, broker: MockBroker, request: add_offsets_to_txn.AddOffsetsToTxnRequest, version: int
    ) -> Message:
        del broker, version
        code = self._judge(request.transactional_id, request.producer_epoch)
        if not code:
            self.known[request.transactional_id].groups.append(request.group_id)
        return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)

    def _commit_offsets(
        self, broker: MockBroker, request: txn_offset_commit.TxnOffsetCommitRequest, version: int
    ) -> Message:
        del broker
        code = self._judge(request.transactional_id, request.producer_epoch)
        known = self.known.get(request.transactional_id)
        if known is not None and not code:
            if version >= _BUMPS_SINCE:
                known.groups.append(request.group_id)
            elif request.group_id not in known.groups:
                code = ErrorCode.INVALID_TXN_STATE
        for topic in request.topics:
            for each in topic.partitions:
                place = (request.group_id, topic.name, each.partition_index)
                self.offsets[place] = each.committed_offset
        return txn_offset_commit.TxnOffsetCommitResponse(
            topics=tuple(
                txn_offset_commit.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        txn_offset_commit.TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _end(self, broker: MockBroker, request: end_txn.EndTxnRequest, version: int) -> Message:
        del broker
        known = self.known.get(request.transactional_id)
        what = "commit" if request.committed else "abort"
        if (
            known is not None
            and version >= _BUMPS_SINCE
            and request.producer_epoch == known.epoch - 1
            and self.diary
            and self.diary[-1][0] == what
        ):
            # A retry: the response to the first was lost (KIP-890).
            return self._ended(known, version)
        code = self._judge(request.transactional_id, request.producer_epoch)
        if known is None or code:
            return end_txn.EndTxnResponse(error_code=code)
        self.diary.append((what, sorted(known.partitions), sorted(known.groups)))
        known.partitions, known.groups = [], []
        if version >= _BUMPS_SINCE:
            known.epoch += 1
        return self._ended(known, version)

    def _ended(self, known: _Known, version: int) -> Message:
        if version < _BUMPS_SINCE:
            return end_txn.EndTxnResponse()
        return end_txn.EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

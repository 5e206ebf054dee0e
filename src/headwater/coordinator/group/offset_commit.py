"""Decide OffsetCommit and TxnOffsetCommit.

Topic ids have been resolved and unknown topics rejected before. Either the whole request is
rejected because of the member, or each partition is checked on its own, and those without an error
are written in one batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TIMESTAMP, NO_TOPIC_ID, ProducerId, TopicId
from headwater.coordinator.group.group import Group
from headwater.coordinator.group.simple_group import SimpleGroup
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Effect,
    Reply,
    RequestEvent,
    TransactionalProducer,
)
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_NO_RETENTION: Final = -1
_FIRST_WITH_GROUP_NOT_FOUND: Final = 9

_Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
_PartitionCheck = Callable[[_Partition], ErrorCode]


@dataclass(frozen=True, slots=True)
class CommitSettings:
    metadata_max_bytes: int


def commit(
    event: RequestEvent, request: OffsetCommitRequest, group: Group | None, settings: CommitSettings
) -> list[Effect]:
    """Commit offsets; a `group` of None may be created as a simple group (GR-11)."""
    generation = request.generation_id_or_member_epoch
    if group is None and generation >= 0:
        is_new = event.version >= _FIRST_WITH_GROUP_NOT_FOUND
        unknown = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        return [Reply(event.caller, commit_error_response(request, unknown))]
    group = group or SimpleGroup(request.group_id)
    error = group.validate_commit(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_or_epoch=generation,
        is_transactional=False,
        version=event.version,
    )
    if error is not None:
        return [Reply(event.caller, commit_error_response(request, error))]
    effects = group.offsets_committed(request.member_id, event.now_ms)
    check = _partition_check(settings)
    records = _records(event, request, check, _expire_timestamp(event, request))
    if records:
        effects.append(Append(records))
    return [*effects, Reply(event.caller, _response(request, check))]


def commit_in_transaction(
    event: RequestEvent,
    request: TxnOffsetCommitRequest,
    group: Group | None,
    settings: CommitSettings,
) -> list[Effect]:
    """Like `commit`, but pending until the producer's marker (TX-11)."""
    if group is None and request.generation_id >= 0:
        response = txn_commit_error_response(request, ErrorCode.ILLEGAL_GENERATION)
        return [Reply(event.caller, response)]
    group = group or SimpleGroup(request.group_id)
    error = group.validate_commit(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_or_epoch=request.generation_id,
        is_transactional=True,
        version=event.version,
    )
    if error is ErrorCode.STALE_MEMBER_EPOCH:
        # Transactional producers do not know the errors of the consumer protocol.
        error = ErrorCode.ILLEGAL_GENERATION
    if error is not None:
        return [Reply(event.caller, txn_commit_error_response(request, error))]
    effects: list[Effect] = []
    check = _partition_check(settings)
    records = _records(event, request, check)
    if records:
        producer_id = ProducerId(request.producer_id)
        producer = TransactionalProducer(producer_id, request.producer_epoch)
        effects.append(Append(records, producer))
    return [*effects, Reply(event.caller, _transactional_response(request, check))]


def commit_error_response(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return a response with one error for all partitions."""
    return _response(request, lambda _: error)


def txn_commit_error_response(
    request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    return _transactional_response(request, lambda _: error)


def _response(request: OffsetCommitRequest, check: _PartitionCheck) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=check(each)
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _transactional_response(
    request: TxnOffsetCommitRequest, check: _PartitionCheck
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=check(each)
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _records(
    event: RequestEvent,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    check: _PartitionCheck,
    expire_timestamp: int = NO_TIMESTAMP,
) -> tuple[OffsetCommitRecord, ...]:
    """Return a record for each partition without an error."""
    return tuple(
        OffsetCommitRecord(
            OffsetCommitKey(
                group=request.group_id, topic=topic.name, partition=each.partition_index
            ),
            OffsetCommitValue(
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata or "",
                commit_timestamp=event.now_ms,
                expire_timestamp=expire_timestamp,
                topic_id=_topic_id(topic),
            ),
        )
        for topic in request.topics
        for each in topic.partitions
        if check(each) is ErrorCode.NONE
    )


def _topic_id(topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic) -> TopicId:
    return topic.topic_id if isinstance(topic, OffsetCommitRequestTopic) else NO_TOPIC_ID


def _expire_timestamp(event: RequestEvent, request: OffsetCommitRequest) -> int:
    """Versions 2 to 4 have a retention time of their own (OE-2)."""
    if request.retention_time_ms == _NO_RETENTION:
        return NO_TIMESTAMP
    return event.now_ms + request.retention_time_ms


def _partition_check(settings: CommitSettings) -> _PartitionCheck:
    def check(partition: _Partition) -> ErrorCode:
        metadata = partition.committed_metadata or ""
        # Like Kafka 4.1, count UTF-16 code units, although the setting says bytes.
        units = len(metadata.encode("utf-16-le", "surrogatepass")) // 2
        if units > settings.metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    return check

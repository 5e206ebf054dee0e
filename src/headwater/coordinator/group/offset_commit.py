"""OffsetCommit and TxnOffsetCommit, decided.

Topic ids are turned into names, and unknown topics refused, before a request comes here. Either
the whole request is refused, for what its sender is or is not in the group, or each partition is
looked at by itself, and those without an error are written in one batch.
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
    Asked,
    Effect,
    Reply,
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
_Judge = Callable[[_Partition], ErrorCode]


@dataclass(frozen=True, slots=True)
class CommitSettings:
    metadata_max_bytes: int


def commit(
    asked: Asked, request: OffsetCommitRequest, group: Group | None, settings: CommitSettings
) -> list[Effect]:
    """`group` is None if nobody knows it; then a simple one may come to be (GR-11)."""
    generation = request.generation_id_or_member_epoch
    if group is None and generation >= 0:
        is_new = asked.version >= _FIRST_WITH_GROUP_NOT_FOUND
        error = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        return [Reply(asked.caller, refused_commit(request, error))]
    group = group or SimpleGroup(request.group_id)
    refusal = group.validate_commit(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_or_epoch=generation,
        is_transactional=False,
        version=asked.version,
    )
    if refusal is not None:
        return [Reply(asked.caller, refused_commit(request, refusal))]
    effects = group.offsets_committed(request.member_id, asked.now_ms)
    judge = _judge_of(settings)
    records = _records(asked, request, judge, _expire_timestamp(asked, request))
    if records:
        effects.append(Append(records))
    return [*effects, Reply(asked.caller, _answer(request, judge))]


def commit_in_transaction(
    asked: Asked, request: TxnOffsetCommitRequest, group: Group | None, settings: CommitSettings
) -> list[Effect]:
    """As a commit, but pending until the producer's marker comes (TX-11)."""
    if group is None and request.generation_id >= 0:
        response = refused_transactional_commit(request, ErrorCode.ILLEGAL_GENERATION)
        return [Reply(asked.caller, response)]
    group = group or SimpleGroup(request.group_id)
    refusal = group.validate_commit(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_or_epoch=request.generation_id,
        is_transactional=True,
        version=asked.version,
    )
    if refusal is ErrorCode.STALE_MEMBER_EPOCH:
        # Transactional producers know nothing of the new protocol's errors.
        refusal = ErrorCode.ILLEGAL_GENERATION
    if refusal is not None:
        return [Reply(asked.caller, refused_transactional_commit(request, refusal))]
    effects: list[Effect] = []
    judge = _judge_of(settings)
    records = _records(asked, request, judge)
    if records:
        producer_id = ProducerId(request.producer_id)
        producer = TransactionalProducer(producer_id, request.producer_epoch)
        effects.append(Append(records, producer))
    return [*effects, Reply(asked.caller, _transactional_answer(request, judge))]


def refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The answer to a request that failed as a whole: there is no other place for the error."""
    return _answer(request, lambda _: error)


def refused_transactional_commit(
    request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    return _transactional_answer(request, lambda _: error)


def _answer(request: OffsetCommitRequest, judge: _Judge) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=judge(each)
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _transactional_answer(
    request: TxnOffsetCommitRequest, judge: _Judge
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=judge(each)
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _records(
    asked: Asked,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    judge: _Judge,
    expire_timestamp: int = NO_TIMESTAMP,
) -> tuple[OffsetCommitRecord, ...]:
    """One for each partition that the judge has nothing against."""
    return tuple(
        OffsetCommitRecord(
            OffsetCommitKey(
                group=request.group_id, topic=topic.name, partition=each.partition_index
            ),
            OffsetCommitValue(
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata or "",
                commit_timestamp=asked.now_ms,
                expire_timestamp=expire_timestamp,
                topic_id=_topic_id(topic),
            ),
        )
        for topic in request.topics
        for each in topic.partitions
        if judge(each) is ErrorCode.NONE
    )


def _topic_id(topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic) -> TopicId:
    return topic.topic_id if isinstance(topic, OffsetCommitRequestTopic) else NO_TOPIC_ID


def _expire_timestamp(asked: Asked, request: OffsetCommitRequest) -> int:
    """Versions 2 to 4 could ask for a retention of their own (OE-2)."""
    if request.retention_time_ms == _NO_RETENTION:
        return NO_TIMESTAMP
    return asked.now_ms + request.retention_time_ms


def _judge_of(settings: CommitSettings) -> _Judge:
    def judge(partition: _Partition) -> ErrorCode:
        metadata = partition.committed_metadata or ""
        # Kafka does this (4.1): the setting speaks of bytes, and UTF-16 units are counted.
        units = len(metadata.encode("utf-16-le", "surrogatepass")) // 2
        if units > settings.metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    return judge

"""OffsetForLeaderEpoch: end offset of a leader epoch (EP-3, EP-4).

Note: in a cluster, a request for an epoch above this leader's epoch gets UNKNOWN_LEADER_EPOCH: this
broker's metadata is stale and another broker leads. Kafka 4.1 answers with an undefined offset
instead, which librdkafka, as it forgets its own epoch with a disconnected broker, takes for log
truncation.
"""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.metadata.controller_result import ApiError
from headwater.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    may_all = broker.is_allowed(call, Operation.CLUSTER_ACTION, CLUSTER)
    results = []
    for topic in request.topics:
        is_authorized = may_all or broker.is_authorized_for_topic(
            call, Operation.DESCRIBE, topic.topic
        )
        ends = tuple(
            _end_of(broker, topic.topic, each)
            if is_authorized
            else _refused(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for each in topic.partitions
        )
        results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
    return OffsetForLeaderEpochResponse(topics=tuple(results))


def error_response(
    request: OffsetForLeaderEpochRequest, refusal: ApiError
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_refused(each, refusal.code) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _end_of(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    hosted = broker.find_led(topic, asked.partition, asked.current_leader_epoch)
    if isinstance(hosted, ErrorCode):
        return _refused(asked, hosted)
    if asked.leader_epoch > hosted.leader_epoch and broker.controller_access.membership is not None:
        return _refused(asked, ErrorCode.UNKNOWN_LEADER_EPOCH)
    try:
        log = hosted.opened()
    except HeadwaterError as error:
        return _refused(asked, error.code)
    end = log.epochs.end_offset_for(asked.leader_epoch, log.end_offset)
    return EpochEndOffset(
        partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )


def _refused(asked: OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=asked.partition, error_code=code)

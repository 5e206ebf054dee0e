"""OffsetForLeaderEpoch: end offset of a leader epoch (EP-3, EP-4).

Note: in a cluster, a request for an epoch above this leader's epoch gets UNKNOWN_LEADER_EPOCH: this
broker's metadata is stale and another broker leads. Kafka 4.1 answers with an undefined offset
instead, which librdkafka, as it forgets its own epoch with a disconnected broker, takes for log
truncation.
"""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
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
            else _error_result(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for each in topic.partitions
        )
        results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
    return OffsetForLeaderEpochResponse(topics=tuple(results))


def error_response(
    request: OffsetForLeaderEpochRequest, error: ApiError
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_error_result(each, error.code) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _end_of(broker: Broker, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    hosted = broker.find_led(topic, requested.partition, requested.current_leader_epoch)
    if isinstance(hosted, ErrorCode):
        return _error_result(requested, hosted)
    if requested.leader_epoch > hosted.leader_epoch and broker.controller_access.is_clustered:
        return _error_result(requested, ErrorCode.UNKNOWN_LEADER_EPOCH)
    try:
        log = hosted.open_log()
    except HeadwaterError as error:
        return _error_result(requested, error.code)
    end = log.epochs.end_offset_for(requested.leader_epoch, log.end_offset)
    return EpochEndOffset(
        partition=requested.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )


def _error_result(requested: OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=requested.partition, error_code=code)

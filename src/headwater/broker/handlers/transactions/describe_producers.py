"""DescribeProducers: active producers of partitions and their open transactions."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.topic_names import topic_name_error
from headwater.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from headwater.security.authorization.authorizer import Operation
from headwater.storage.producer_state.producer_state_manager import ProducerEntry


def handle(
    broker: Broker, request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=tuple(_describe_topic(broker, topic, call) for topic in request.topics)
    )


def error_response(request: DescribeProducersRequest, error: ApiError) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=tuple(_error_result(each, error) for each in request.topics)
    )


def _describe_topic(broker: Broker, asked: TopicRequest, call: Call) -> TopicResponse:
    illegal = topic_name_error(asked.name)
    if illegal:
        return _error_result(asked, ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal))
    if not broker.is_authorized_for_topic(call, Operation.READ, asked.name):
        reason = "not authorized for READ on the topic"
        return _error_result(asked, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, reason))
    if asked.name not in broker.image.topics:
        reason = f"topic {asked.name} does not exist"
        return _error_result(asked, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason))
    partitions = tuple(_describe(broker, asked.name, each) for each in asked.partition_indexes)
    return TopicResponse(name=asked.name, partitions=partitions)


def _describe(broker: Broker, topic: str, number: int) -> PartitionResponse:
    hosted = broker.find_led(topic, number)
    if isinstance(hosted, ErrorCode):
        return PartitionResponse(partition_index=number, error_code=hosted)
    try:
        producers = hosted.open_log().producers.entries()
    except HeadwaterError as error:
        return PartitionResponse(
            partition_index=number, error_code=error.code, error_message=str(error)
        )
    return PartitionResponse(partition_index=number, active_producers=tuple(map(_state, producers)))


def _state(producer: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_first_offset,
    )


def _error_result(asked: TopicRequest, error: ApiError) -> TopicResponse:
    return TopicResponse(
        name=asked.name,
        partitions=tuple(
            PartitionResponse(
                partition_index=number, error_code=error.code, error_message=error.reason
            )
            for number in asked.partition_indexes
        ),
    )

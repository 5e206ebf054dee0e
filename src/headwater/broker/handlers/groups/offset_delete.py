"""OffsetDelete: delete committed offsets of a group."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headwater.broker.handlers.groups.group_requests import is_authorized_for_group, topic_error
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headwater.security.authorization.authorizer import Operation


def handle(broker: Broker, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse | None:
    error = _group_error(broker, call, request.group_id)
    if error is not None:
        call.record_error(error)
        return OffsetDeleteResponse(error_code=error)
    accepted: list[OffsetDeleteRequestTopic] = []
    errors: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        for each, error in _split(broker, call, topic):
            if error is None:
                accepted.append(each)
            else:
                call.record_error(error)
                errors.append(_error_result(each, error))

    def respond(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.record_error(outcome)
            outcome = OffsetDeleteResponse(error_code=outcome)
        assert isinstance(outcome, OffsetDeleteResponse)
        if outcome.error_code is ErrorCode.NONE:
            outcome = replace(outcome, topics=_merged([*errors, *outcome.topics]))
        call.answer(outcome)

    accepted_request = replace(request, topics=tuple(accepted))
    broker.groups.handle_request(request.group_id, accepted_request, call, respond)
    return None


def error_response(_: OffsetDeleteRequest, error: ApiError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code)


def _group_error(broker: Broker, call: Call, group_id: str) -> ErrorCode | None:
    """As in Kafka, the empty group id can commit offsets but not delete them."""
    if not is_authorized_for_group(broker, call, Operation.DELETE, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None if group_id else ErrorCode.INVALID_GROUP_ID


def _split(
    broker: Broker, call: Call, topic: OffsetDeleteRequestTopic
) -> Iterator[tuple[OffsetDeleteRequestTopic, ErrorCode | None]]:
    """Split a topic into its existing partitions and those with an error."""
    error = topic_error(broker, call, topic.name)
    if error is not None:
        yield topic, error
        return
    count = len(broker.image.topics[topic.name].partitions)
    existing = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
    missing = tuple(each for each in topic.partitions if not 0 <= each.partition_index < count)
    if missing:
        yield replace(topic, partitions=missing), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if existing:
        yield replace(topic, partitions=existing), None


def _error_result(topic: OffsetDeleteRequestTopic, error: ErrorCode) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
        ),
    )


def _merged(topics: Sequence[OffsetDeleteResponseTopic]) -> tuple[OffsetDeleteResponseTopic, ...]:
    """Merge results so that each topic occurs once."""
    by_name: dict[str, tuple[OffsetDeleteResponsePartition, ...]] = {}
    for each in topics:
        by_name[each.name] = by_name.get(each.name, ()) + each.partitions
    return tuple(
        OffsetDeleteResponseTopic(name=name, partitions=partitions)
        for name, partitions in by_name.items()
    )

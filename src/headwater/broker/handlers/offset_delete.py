"""OffsetDelete: an admin takes back what a group has committed."""

from dataclasses import replace

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import may_group, topic_error
from headwater.cluster.decision import Refusal
from headwater.coordinator.hosted_shard import Outcome
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation
from headwater.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(broker: Broker, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse | None:
    if not may_group(broker, call, Operation.DELETE, request.group_id):
        call.note_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    accepted: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        error = topic_error(broker, call, topic.name)
        if error is None:
            accepted.append(topic)
        else:
            call.note_error(error)
            refused.append(_refused(topic, error))

    def gathered(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.note_error(outcome)
            outcome = OffsetDeleteResponse(error_code=outcome)
        assert isinstance(outcome, OffsetDeleteResponse)
        if outcome.error_code is ErrorCode.NONE:
            outcome = replace(outcome, topics=(*refused, *outcome.topics))
        call.answer(outcome)

    passed_on = replace(request, topics=tuple(accepted))
    broker.groups.ask(request.group_id, passed_on, call, gathered)
    return None


def refuse(_: OffsetDeleteRequest, refusal: Refusal) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=refusal.code)


def _refused(topic: OffsetDeleteRequestTopic, error: ErrorCode) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
        ),
    )

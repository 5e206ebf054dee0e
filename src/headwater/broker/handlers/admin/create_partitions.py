"""CreatePartitions: add partitions to topics (TO-5)."""

from collections import Counter
from dataclasses import replace
from functools import partial

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.broker.requests.controller_mutations import ControllerMutations
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.topic_changes import create_partitions
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from headwater.security.authorization.authorizer import Operation

_UNAUTHORIZED = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def handle(broker: ControllerContext, request: CreatePartitionsRequest, call: Call) -> None:
    times = Counter(each.name for each in request.topics)
    unauthorized = [
        name
        for name, count in times.items()
        if count == 1 and not broker.is_authorized_for_topic(call, Operation.ALTER, name)
    ]
    allowed = tuple(each for each in request.topics if each.name not in unauthorized)
    mutations = ControllerMutations(broker, call)

    def respond(results: tuple[CreatePartitionsTopicResult, ...]) -> CreatePartitionsResponse:
        errors = (_error_result(name, _UNAUTHORIZED) for name in unauthorized)
        return CreatePartitionsResponse(
            throttle_time_ms=mutations.throttle_ms, results=(*results, *errors)
        )

    submit(
        broker,
        call,
        partial(
            create_partitions,
            request=replace(request, topics=allowed),
            rng=broker.rng,
            spend=mutations.spend,
        ),
        respond=respond,
        error_response=partial(error_response, request),
        timeout_ms=request.timeout_ms,
    )


def error_response(
    request: CreatePartitionsRequest,
    error: ApiError,
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=tuple(_error_result(each.name, error) for each in request.topics)
    )


def _error_result(name: str, error: ApiError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.reason)

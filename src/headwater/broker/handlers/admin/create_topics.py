"""CreateTopics: create topics (TO-2, TO-3)."""

from collections import Counter
from dataclasses import replace
from functools import partial

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.broker.requests.controller_mutations import ControllerMutations
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.topic_creation import Results, create_topics
from headwater.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation

_UNAUTHORIZED = ApiError(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not authorized to create a topic of that name"
)


def handle(broker: ControllerContext, request: CreateTopicsRequest, call: Call) -> None:
    unauthorized = _unauthorized(broker, request, call)
    allowed = tuple(each for each in request.topics if each.name not in unauthorized)
    mutations = ControllerMutations(broker, call)

    def respond(results: Results) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            throttle_time_ms=mutations.throttle_ms,
            topics=(
                *(_without_hidden_configs(broker, each, call) for each in results),
                *(_error_result(name, _UNAUTHORIZED) for name in unauthorized),
            ),
        )

    submit(
        broker,
        call,
        partial(
            create_topics,
            request=replace(request, topics=allowed),
            static=broker.static,
            rng=broker.rng,
            spend=mutations.spend,
        ),
        respond=respond,
        error_response=partial(error_response, request),
        timeout_ms=request.timeout_ms,
    )


def error_response(request: CreateTopicsRequest, error: ApiError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=tuple(_error_result(each.name, error) for each in request.topics)
    )


def _unauthorized(broker: ControllerContext, request: CreateTopicsRequest, call: Call) -> list[str]:
    """Return names that the client may not create; duplicates are rejected as such."""
    if broker.is_allowed(call, Operation.CREATE, CLUSTER):
        return []
    times = Counter(each.name for each in request.topics)
    return [
        name
        for name, count in times.items()
        if count == 1 and not broker.is_authorized_for_topic(call, Operation.CREATE, name)
    ]


def _without_hidden_configs(
    broker: ControllerContext, result: CreatableTopicResult, call: Call
) -> CreatableTopicResult:
    """Remove configs if the client may create the topic but not describe its configs."""
    if result.error_code or broker.is_allowed_for_topic(
        call, Operation.DESCRIBE_CONFIGS, result.name
    ):
        return result
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


def _error_result(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.reason)

"""CreateTopics (TO-2, TO-3)."""

from collections import Counter
from dataclasses import replace
from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.broker.mutations import Mutations
from headwater.cluster.decision import Refusal
from headwater.cluster.topic_creation import Results, create_topics
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_UNAUTHORIZED = Refusal(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, "creating a topic of that name is not allowed"
)


def handle(broker: Broker, request: CreateTopicsRequest, call: Call) -> None:
    unauthorized = _unauthorized(broker, request, call)
    allowed = tuple(each for each in request.topics if each.name not in unauthorized)
    mutations = Mutations(broker, call)

    def respond(results: Results) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            throttle_time_ms=mutations.throttle_ms,
            topics=(
                *(_without_secrets(broker, each, call) for each in results),
                *(_refused(name, _UNAUTHORIZED) for name in unauthorized),
            ),
        )

    submit(
        broker,
        call,
        partial(
            create_topics,
            request=replace(request, topics=allowed),
            static=broker.static,
            dice=broker.dice,
            spend=mutations.spend,
        ),
        respond=respond,
        refuse=partial(refuse, request),
        timeout_ms=request.timeout_ms,
    )


def refuse(request: CreateTopicsRequest, refusal: Refusal) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=tuple(_refused(each.name, refusal) for each in request.topics)
    )


def _unauthorized(broker: Broker, request: CreateTopicsRequest, call: Call) -> list[str]:
    """Names that may not be made; a name that stands there twice is refused for that instead."""
    if broker.could(call, Operation.CREATE, CLUSTER):
        return []
    times = Counter(each.name for each in request.topics)
    return [
        name
        for name, count in times.items()
        if count == 1 and not broker.may_topic(call, Operation.CREATE, name)
    ]


def _without_secrets(
    broker: Broker, result: CreatableTopicResult, call: Call
) -> CreatableTopicResult:
    """Who may make a topic may still not see its configs."""
    if result.error_code or broker.could_topic(call, Operation.DESCRIBE_CONFIGS, result.name):
        return result
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.code, error_message=refusal.reason)

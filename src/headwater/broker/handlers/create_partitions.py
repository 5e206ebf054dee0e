"""CreatePartitions (TO-5)."""

from collections import Counter
from dataclasses import replace
from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.broker.mutations import Mutations
from headwater.cluster.decision import Refusal
from headwater.cluster.topic_changes import create_partitions
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation
from headwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

_UNAUTHORIZED = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def handle(broker: Broker, request: CreatePartitionsRequest, call: Call) -> None:
    times = Counter(each.name for each in request.topics)
    unauthorized = [
        name
        for name, count in times.items()
        if count == 1 and not broker.may_topic(call, Operation.ALTER, name)
    ]
    allowed = tuple(each for each in request.topics if each.name not in unauthorized)
    mutations = Mutations(broker, call)

    def respond(results: tuple[CreatePartitionsTopicResult, ...]) -> CreatePartitionsResponse:
        refused = (_refused(name, _UNAUTHORIZED) for name in unauthorized)
        return CreatePartitionsResponse(
            throttle_time_ms=mutations.throttle_ms, results=(*results, *refused)
        )

    submit(
        broker,
        call,
        partial(
            create_partitions,
            request=replace(request, topics=allowed),
            dice=broker.dice,
            spend=mutations.spend,
        ),
        respond=respond,
        refuse=partial(refuse, request),
        timeout_ms=request.timeout_ms,
    )


def refuse(
    request: CreatePartitionsRequest,
    refusal: Refusal,
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=tuple(_refused(each.name, refusal) for each in request.topics)
    )


def _refused(name: str, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=refusal.code, error_message=refusal.reason
    )

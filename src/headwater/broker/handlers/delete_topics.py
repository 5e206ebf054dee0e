"""DeleteTopics (TO-4)."""

from functools import partial
from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.decisions import submit
from headwater.broker.mutations import Mutations
from headwater.cluster.decision import Refusal
from headwater.cluster.topic_changes import Rights, delete_topics
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

_DISABLED_SINCE: Final = 3
_DISABLED_REASON: Final = "delete.topic.enable is false"


def handle(broker: Broker, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse | None:
    if not broker.settings.delete_topic_enable:
        is_known = call.version >= _DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        return refuse(request, Refusal(code, _DISABLED_REASON))
    may_all = broker.could(call, Operation.DELETE, CLUSTER)
    rights = Rights(
        may_describe=lambda name: may_all or broker.may_topic(call, Operation.DESCRIBE, name),
        may_delete=lambda name: may_all or broker.may_topic(call, Operation.DELETE, name),
    )
    mutations = Mutations(broker, call)
    submit(
        broker,
        call,
        partial(delete_topics, request=request, rights=rights, spend=mutations.spend),
        respond=lambda results: DeleteTopicsResponse(
            throttle_time_ms=mutations.throttle_ms, responses=results
        ),
        refuse=partial(refuse, request),
        timeout_ms=request.timeout_ms,
    )
    return None


def refuse(request: DeleteTopicsRequest, refusal: Refusal) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=tuple(
            DeletableTopicResult(
                name=each.name,
                topic_id=each.topic_id,
                error_code=refusal.code,
                error_message=refusal.reason,
            )
            for each in request.topics
        )
    )

"""DeleteTopics: delete topics by name or id (TO-4)."""

from functools import partial
from typing import Final

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.broker.requests.controller_mutations import ControllerMutations
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.topic_changes import TopicAuthorization, delete_topics
from headwater.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation

_DISABLED_SINCE: Final = 3
_DISABLED_REASON: Final = "delete.topic.enable is false"


def handle(
    broker: ControllerContext, request: DeleteTopicsRequest, call: Call
) -> DeleteTopicsResponse | None:
    if not broker.settings.delete_topic_enable:
        is_known = call.version >= _DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        return error_response(request, ApiError(code, _DISABLED_REASON))
    may_all = broker.is_allowed(call, Operation.DELETE, CLUSTER)
    rights = TopicAuthorization(
        may_describe=lambda name: (
            may_all or broker.is_authorized_for_topic(call, Operation.DESCRIBE, name)
        ),
        may_delete=lambda name: (
            may_all or broker.is_authorized_for_topic(call, Operation.DELETE, name)
        ),
    )
    mutations = ControllerMutations(broker, call)
    submit(
        broker,
        call,
        partial(delete_topics, request=request, authorization=rights, spend=mutations.spend),
        respond=lambda results: DeleteTopicsResponse(
            throttle_time_ms=mutations.throttle_ms, responses=results
        ),
        error_response=partial(error_response, request),
        timeout_ms=request.timeout_ms,
    )
    return None


def error_response(request: DeleteTopicsRequest, error: ApiError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=tuple(
            DeletableTopicResult(
                name=each.name,
                topic_id=each.topic_id,
                error_code=error.code,
                error_message=error.reason,
            )
            for each in request.topics
        )
    )

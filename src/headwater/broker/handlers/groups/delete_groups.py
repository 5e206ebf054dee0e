"""DeleteGroups: delete empty groups and their offsets (GR-16)."""

from collections.abc import Sequence

from headwater.broker.handlers.groups.group_requests import EachGroup, handle_each_group
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import Operation


def handle(broker: Broker, request: DeleteGroupsRequest, call: Call) -> Message | None:
    each = EachGroup(
        operation=Operation.DELETE,
        shard_request=lambda group_ids: DeleteGroupsRequest(groups_names=group_ids),
        results=_deleted,
        error_result=_error_result,
        respond=_respond,
    )
    return handle_each_group(broker, call, list(dict.fromkeys(request.groups_names)), each)


def error_response(request: DeleteGroupsRequest, error: ApiError) -> DeleteGroupsResponse:
    return _respond([_error_result(group_id, error.code) for group_id in request.groups_names])


def _respond(results: Sequence[DeletableGroupResult]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=tuple(results))


def _deleted(answer: Message) -> Sequence[DeletableGroupResult]:
    assert isinstance(answer, DeleteGroupsResponse)
    return answer.results


def _error_result(group_id: str, error: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error)

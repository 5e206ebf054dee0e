"""DeleteGroups: groups without members go, with their offsets (GR-16)."""

from collections.abc import Callable, Sequence
from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import Gathering, may_group
from headwater.cluster.decision import Refusal
from headwater.coordinator.hosted_shard import Outcome
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation
from headwater.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(broker: Broker, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse | None:
    names = tuple(dict.fromkeys(request.groups_names))
    if not names:
        return DeleteGroupsResponse()

    def done(results: Sequence[DeletableGroupResult]) -> None:
        call.answer(DeleteGroupsResponse(results=tuple(results)))

    gathering = Gathering(len(names), done)
    for index, group_id in enumerate(names):
        put = partial(gathering.put, index)
        if may_group(broker, call, Operation.DELETE, group_id):
            one = DeleteGroupsRequest(groups_names=(group_id,))
            broker.groups.ask(group_id, one, call, _putting(call, group_id, put))
        else:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            call.note_error(error)
            put(DeletableGroupResult(group_id=group_id, error_code=error))
    return None


def refuse(request: DeleteGroupsRequest, refusal: Refusal) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=group_id, error_code=refusal.code)
            for group_id in request.groups_names
        )
    )


def _putting(
    call: Call, group_id: str, put: Callable[[DeletableGroupResult], None]
) -> Callable[[Outcome], None]:
    def gathered(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.note_error(outcome)
            put(DeletableGroupResult(group_id=group_id, error_code=outcome))
        else:
            assert isinstance(outcome, DeleteGroupsResponse)
            put(outcome.results[0])

    return gathered

"""ListGroups: groups of this coordinator that the client may describe.

While a shard is loading, the list would be incomplete, so the response is an error.
"""

from collections.abc import Sequence
from functools import partial

from headwater.broker.coordinators.led_shards import handle_in_shard
from headwater.broker.handlers.groups.group_requests import GatheredResponses
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation, Resource, ResourceKind


def handle(broker: Broker, request: ListGroupsRequest, call: Call) -> ListGroupsResponse | None:
    shards = broker.groups.shards()
    if not shards:
        return ListGroupsResponse()
    sees_all = broker.is_allowed(call, Operation.DESCRIBE, CLUSTER)

    def is_visible(listed: ListedGroup) -> bool:
        group = Resource(ResourceKind.GROUP, listed.group_id)
        return sees_all or broker.is_allowed(call, Operation.DESCRIBE, group)

    def done(outcomes: Sequence[Outcome]) -> None:
        groups: list[ListedGroup] = []
        for outcome in outcomes:
            if isinstance(outcome, ErrorCode):
                call.record_error(outcome)
                call.answer(ListGroupsResponse(error_code=outcome))
                return
            assert isinstance(outcome, ListGroupsResponse)
            groups += filter(is_visible, outcome.groups)
        call.answer(ListGroupsResponse(groups=tuple(groups)))

    gathering: GatheredResponses[Outcome] = GatheredResponses(len(shards), done)
    for index, shard in enumerate(shards):
        handle_in_shard(shard, request, call, partial(gathering.put, index))
    return None


def error_response(_: ListGroupsRequest, error: ApiError) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error.code)

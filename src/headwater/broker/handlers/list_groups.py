"""ListGroups: all groups that this broker coordinates, as far as the caller may see them.

While some of them are still being loaded the list would lack them, so there is none.
"""

from collections.abc import Sequence
from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.group_requests import Gathering
from headwater.broker.led_shards import ask_shard
from headwater.cluster.decision import Refusal
from headwater.coordinator.pending_answers import Outcome
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation, Resource, ResourceKind
from headwater.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(broker: Broker, request: ListGroupsRequest, call: Call) -> ListGroupsResponse | None:
    shards = broker.groups.shards()
    if not shards:
        return ListGroupsResponse()
    sees_all = broker.could(call, Operation.DESCRIBE, CLUSTER)

    def is_visible(listed: ListedGroup) -> bool:
        group = Resource(ResourceKind.GROUP, listed.group_id)
        return sees_all or broker.could(call, Operation.DESCRIBE, group)

    def done(outcomes: Sequence[Outcome]) -> None:
        groups: list[ListedGroup] = []
        for outcome in outcomes:
            if isinstance(outcome, ErrorCode):
                call.note_error(outcome)
                call.answer(ListGroupsResponse(error_code=outcome))
                return
            assert isinstance(outcome, ListGroupsResponse)
            groups += filter(is_visible, outcome.groups)
        call.answer(ListGroupsResponse(groups=tuple(groups)))

    gathering: Gathering[Outcome] = Gathering(len(shards), done)
    for index, shard in enumerate(shards):
        ask_shard(shard, request, call, partial(gathering.put, index))
    return None


def refuse(_: ListGroupsRequest, refusal: Refusal) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=refusal.code)

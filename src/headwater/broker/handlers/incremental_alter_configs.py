"""IncrementalAlterConfigs: change single configs (CF-1).

The levels of loggers are changed here and now, all else when the controller has agreed.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.config_rights import refuse_unauthorized
from headwater.broker.decisions import submit
from headwater.broker.log_levels import (
    LevelChanges,
    judged,
    present_levels,
    refuse_broker,
    set_levels,
)
from headwater.cluster.config_changes import incremental_alter_configs
from headwater.cluster.decision import Refusal
from headwater.model.config_terms import ResourceType
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation
from headwater.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_DONE: Final = Refusal(ErrorCode.NONE, None)
_TWICE: Final = Refusal(ErrorCode.INVALID_REQUEST, "a resource may stand in a request only once")


def handle(broker: Broker, request: IncrementalAlterConfigsRequest, call: Call) -> None:
    allowed, settled = [], []
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    for each in request.resources:
        refusal = refuse_unauthorized(
            broker, call, Operation.ALTER_CONFIGS, each.resource_type, each.resource_name
        )
        if refusal is not None:
            settled.append(_told(each, refusal))
        elif each.resource_type == ResourceType.BROKER_LOGGER:
            is_alone = times[each.resource_type, each.resource_name] == 1
            outcome = _level_changes(broker, each) if is_alone else _TWICE
            if not (isinstance(outcome, Refusal) or request.validate_only):
                set_levels(outcome)
            settled.append(_told(each, outcome if isinstance(outcome, Refusal) else _DONE))
        else:
            allowed.append(each)

    def respond(
        results: tuple[AlterConfigsResourceResponse, ...],
    ) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=(*results, *settled))

    if settled and not allowed:
        call.answer(respond(()))
        return
    submit(
        broker,
        call,
        partial(
            incremental_alter_configs,
            request=replace(request, resources=tuple(allowed)),
            static=broker.static,
        ),
        respond=respond,
        refuse=partial(refuse, request),
    )


def refuse(
    request: IncrementalAlterConfigsRequest, refusal: Refusal
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(_told(each, refusal) for each in request.resources)
    )


def _level_changes(broker: Broker, asked: AlterConfigsResource) -> LevelChanges | Refusal:
    refusal = refuse_broker(asked.resource_name, broker.node_id)
    return judged(asked.configs, present_levels()) if refusal is None else refusal


def _told(asked: AlterConfigsResource, outcome: Refusal) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.code,
        error_message=outcome.reason,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )

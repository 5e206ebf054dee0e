"""IncrementalAlterConfigs: change single configs (CF-1).

Log levels are changed directly on this broker, everything else by the controller.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from headwater.broker.handlers.config_authorization import authorization_error
from headwater.broker.node.broker import Broker
from headwater.broker.node.log_levels import (
    LevelChanges,
    judged,
    present_levels,
    refuse_broker,
    set_levels,
)
from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.controller.configuration_control import incremental_alter_configs
from headwater.metadata.controller_result import ApiError
from headwater.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.security.authorization.authorizer import Operation

_DONE: Final = ApiError(ErrorCode.NONE, None)
_TWICE: Final = ApiError(ErrorCode.INVALID_REQUEST, "duplicate resources in the request")


def handle(broker: Broker, request: IncrementalAlterConfigsRequest, call: Call) -> None:
    allowed, settled = [], []
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    for each in request.resources:
        refusal = authorization_error(
            broker, call, Operation.ALTER_CONFIGS, each.resource_type, each.resource_name
        )
        if refusal is not None:
            settled.append(_told(each, refusal))
        elif each.resource_type == ResourceType.BROKER_LOGGER:
            is_alone = times[each.resource_type, each.resource_name] == 1
            outcome = _level_changes(broker, each) if is_alone else _TWICE
            if not (isinstance(outcome, ApiError) or request.validate_only):
                set_levels(outcome)
            settled.append(_told(each, outcome if isinstance(outcome, ApiError) else _DONE))
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
        refuse=partial(error_response, request),
    )


def error_response(
    request: IncrementalAlterConfigsRequest, refusal: ApiError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(_told(each, refusal) for each in request.resources)
    )


def _level_changes(broker: Broker, asked: AlterConfigsResource) -> LevelChanges | ApiError:
    refusal = refuse_broker(asked.resource_name, broker.node_id)
    return judged(asked.configs, present_levels()) if refusal is None else refusal


def _told(asked: AlterConfigsResource, outcome: ApiError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.code,
        error_message=outcome.reason,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )

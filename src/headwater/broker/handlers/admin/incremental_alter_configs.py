"""IncrementalAlterConfigs: change single configs (CF-1).

Log levels are changed directly on this broker, everything else by the controller.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from headwater.broker.handlers.config_authorization import authorization_error
from headwater.broker.node.log_levels import (
    LevelChanges,
    broker_error,
    current_levels,
    set_levels,
    validate_changes,
)
from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.controller.configuration_control import incremental_alter_configs
from headwater.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.security.authorization.authorizer import Operation

_SUCCESS: Final = ApiError(ErrorCode.NONE, None)
_DUPLICATE: Final = ApiError(ErrorCode.INVALID_REQUEST, "duplicate resources in the request")


def handle(broker: ControllerContext, request: IncrementalAlterConfigsRequest, call: Call) -> None:
    allowed, results_here = [], []
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    for each in request.resources:
        error = authorization_error(
            broker, call, Operation.ALTER_CONFIGS, each.resource_type, each.resource_name
        )
        if error is not None:
            results_here.append(_result(each, error))
        elif each.resource_type == ResourceType.BROKER_LOGGER:
            is_alone = times[each.resource_type, each.resource_name] == 1
            outcome = _level_changes(broker, each) if is_alone else _DUPLICATE
            if not (isinstance(outcome, ApiError) or request.validate_only):
                set_levels(outcome)
            results_here.append(
                _result(each, outcome if isinstance(outcome, ApiError) else _SUCCESS)
            )
        else:
            allowed.append(each)

    def respond(
        results: tuple[AlterConfigsResourceResponse, ...],
    ) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=(*results, *results_here))

    if results_here and not allowed:
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
        error_response=partial(error_response, request),
    )


def error_response(
    request: IncrementalAlterConfigsRequest, error: ApiError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(_result(each, error) for each in request.resources)
    )


def _level_changes(
    broker: ControllerContext, asked: AlterConfigsResource
) -> LevelChanges | ApiError:
    error = broker_error(asked.resource_name, broker.node_id)
    return validate_changes(asked.configs, current_levels()) if error is None else error


def _result(asked: AlterConfigsResource, outcome: ApiError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.code,
        error_message=outcome.reason,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )

"""AlterConfigs: replace all configs of a resource (CF-1)."""

from dataclasses import replace
from functools import partial

from headwater.broker.handlers.config_authorization import authorization_error
from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.controller.configuration_control import alter_configs
from headwater.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from headwater.security.authorization.authorizer import Operation


def handle(broker: ControllerContext, request: AlterConfigsRequest, call: Call) -> None:
    allowed, errors = [], []
    for each in request.resources:
        error = authorization_error(
            broker, call, Operation.ALTER_CONFIGS, each.resource_type, each.resource_name
        )
        if error is None:
            allowed.append(each)
        else:
            errors.append(_error_result(each, error))

    def respond(results: tuple[AlterConfigsResourceResponse, ...]) -> AlterConfigsResponse:
        return AlterConfigsResponse(responses=(*results, *errors))

    submit(
        broker,
        call,
        partial(
            alter_configs, request=replace(request, resources=tuple(allowed)), static=broker.static
        ),
        respond=respond,
        error_response=partial(error_response, request),
    )


def error_response(request: AlterConfigsRequest, error: ApiError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=tuple(_error_result(each, error) for each in request.resources)
    )


def _error_result(asked: AlterConfigsResource, error: ApiError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.reason,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )

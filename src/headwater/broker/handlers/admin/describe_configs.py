"""DescribeConfigs: effective configs and their sources."""

from headwater.broker.handlers.config_authorization import authorization_error
from headwater.broker.node.broker import Broker
from headwater.broker.node.log_levels import broker_error, current_levels
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.config_types import ConfigSource, ResourceType
from headwater.metadata.config_description import describe_config
from headwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headwater.security.authorization.authorizer import Operation


def handle(broker: Broker, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=tuple(_describe(broker, each, request, call) for each in request.resources)
    )


def error_response(request: DescribeConfigsRequest, error: ApiError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=tuple(_error_result(each, error) for each in request.resources)
    )


def _describe(
    broker: Broker, asked: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResult:
    error = authorization_error(
        broker, call, Operation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name
    )
    if error is not None:
        return _error_result(asked, error)
    if asked.resource_type == ResourceType.BROKER_LOGGER:
        error = broker_error(asked.resource_name, broker.node_id)
        return _loggers(asked) if error is None else _error_result(asked, error)
    return describe_config(broker.image, asked, request, broker.static)


def _loggers(asked: DescribeConfigsResource) -> DescribeConfigsResult:
    keys = asked.configuration_keys
    return DescribeConfigsResult(
        error_message="",
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=tuple(
            DescribeConfigsResourceResult(
                name=name,
                value=level,
                config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            )
            for name, level in current_levels().items()
            if keys is None or name in keys
        ),
    )


def _error_result(asked: DescribeConfigsResource, error: ApiError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.reason,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )

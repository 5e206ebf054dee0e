"""DescribeClientQuotas: read client quotas by a filter (KIP-546)."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.client_quota_control import describe_client_quotas
from headwater.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    if not broker.is_authorized(call, Operation.DESCRIBE_CONFIGS, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    found = describe_client_quotas(broker.image, request)
    if isinstance(found, ApiError):
        return error_response(request, found)
    # An empty string instead of null, as in Kafka 4.1.
    return DescribeClientQuotasResponse(error_message="", entries=found)


def error_response(_: DescribeClientQuotasRequest, error: ApiError) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.reason, entries=None
    )

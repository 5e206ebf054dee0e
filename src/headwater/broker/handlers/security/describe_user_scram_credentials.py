"""DescribeUserScramCredentials: SCRAM users, their mechanisms and iterations."""

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.metadata.scram_credentials import describe_users
from headwater.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    if not broker.is_authorized(call, Operation.DESCRIBE, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    results = describe_users(broker.image, request.users)
    return DescribeUserScramCredentialsResponse(results=results)


def error_response(
    _: DescribeUserScramCredentialsRequest, error: ApiError
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.reason)

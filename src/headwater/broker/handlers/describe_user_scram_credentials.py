"""DescribeUserScramCredentials: who can log in by SCRAM, and with how many iterations."""

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.cluster.decision import Refusal
from headwater.cluster.scram_users import describe_users
from headwater.model.errors import ErrorCode
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    if not broker.may(call, Operation.DESCRIBE, CLUSTER):
        return refuse(request, Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    results = describe_users(broker.image, request.users)
    return DescribeUserScramCredentialsResponse(results=results)


def refuse(
    _: DescribeUserScramCredentialsRequest, refusal: Refusal
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=refusal.code, error_message=refusal.reason
    )

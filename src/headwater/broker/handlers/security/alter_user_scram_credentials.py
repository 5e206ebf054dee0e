"""AlterUserScramCredentials: add, change or delete SCRAM credentials."""

from functools import partial

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.metadata.scram_credentials import alter_users, reject_all
from headwater.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: AlterUserScramCredentialsRequest, call: Call
) -> AlterUserScramCredentialsResponse | None:
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))

    def respond(
        results: tuple[AlterUserScramCredentialsResult, ...],
    ) -> AlterUserScramCredentialsResponse:
        return AlterUserScramCredentialsResponse(results=results)

    submit(
        broker,
        call,
        partial(alter_users, request=request),
        respond=respond,
        error_response=partial(error_response, request),
    )
    return None


def error_response(
    request: AlterUserScramCredentialsRequest, error: ApiError
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(results=reject_all(request, error))

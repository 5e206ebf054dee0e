"""UnregisterBroker: remove a broker that will not return.

Only a KRaft cluster keeps the registration of a broker that has stopped.
"""

from functools import partial

from headwater.broker.node.pending_change import submit
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller.quorum.cluster_control import unregister_broker
from headwater.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: ControllerContext, request: UnregisterBrokerRequest, call: Call
) -> UnregisterBrokerResponse | None:
    if not broker.is_authorized(call, Operation.ALTER, CLUSTER):
        return error_response(request, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    submit(
        broker,
        call,
        partial(unregister_broker, request=request),
        respond=partial(error_response, request),
        error_response=partial(error_response, request),
    )
    return None


def error_response(_: UnregisterBrokerRequest, error: ApiError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.reason)

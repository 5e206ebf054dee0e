"""Call request handlers and turn exceptions into error codes.

The only place where this happens. An unexpected exception is answered with UNKNOWN_SERVER_ERROR and
logged once, with the request; the broker keeps running.
"""

import logging
from typing import Final

from headwater.broker.requests.api_routes import route_of
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, ProtocolError
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import Encoded
from headwater.protocol.older_versions import Message

# Requests with credentials or sensitive configs; an Envelope may contain either.
_SECRET: Final = (
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ENVELOPE,
)

_log = logging.getLogger(__name__)


def redacted(request: Message) -> str:
    """Format a request for the log, redacting sensitive ones."""
    return "[redacted]" if request.api in _SECRET else repr(request)


def answer(broker: ControllerContext, call: Call, request: Message) -> Message | Encoded | None:
    """Call the handler; None if the response comes later."""
    route = route_of(call.header.api.key)
    try:
        return route.handle(broker, request, call)
    except ProtocolError:
        raise
    except Exception as error:  # noqa: BLE001, answered as an error
        return error_response_of(call, request, error)


def error_response_of(call: Call, request: Message, error: Exception) -> Message:
    """Return the response to a request that failed with an exception."""
    if isinstance(error, HeadwaterError):
        api_error = ApiError(error.code, str(error))
    else:
        _log.error("Request failed: %s request=%s", call, redacted(request), exc_info=error)
        api_error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    call.record_error(api_error.code)
    return route_of(call.header.api.key).error_response(request, api_error)

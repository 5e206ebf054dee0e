"""From a request to its handler, and from an exception to an error code: the one place for it.

Our fault is answered with UNKNOWN_SERVER_ERROR and logged once, with the request that found it; the
broker goes on.
"""

import logging
from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.api_routes import route_of
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, ProtocolError
from headwater.metadata.controller_result import ApiError
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import Encoded
from headwater.protocol.older_versions import Message

# Of users, and of settings that somebody wanted to change; an envelope may have either in it.
_SECRET: Final = (
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ENVELOPE,
)

_log = logging.getLogger(__name__)


def shown(request: Message) -> str:
    """A request for a log, without what nobody may read there."""
    return "a secret" if request.api in _SECRET else repr(request)


def answer(broker: Broker, call: Call, request: Message) -> Message | Encoded | None:
    """The answer, or None where it comes later."""
    route = route_of(call.header.api.key)
    try:
        return route.handle(broker, request, call)
    except ProtocolError:
        raise
    except HeadwaterError as error:
        refusal = ApiError(error.code, str(error))
    except Exception:  # noqa: BLE001, the one place for it
        _log.exception("%s failed: %s", call, shown(request))
        refusal = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    call.note_error(refusal.code)
    return route.error_response(request, refusal)

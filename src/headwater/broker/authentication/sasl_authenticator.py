"""Authenticate a connection with SASL before its requests are served.

    greeting     ApiVersions may come once, or SaslHandshake at once
    handshake    SaslHandshake must come
    tokens       SaslAuthenticate, or after SaslHandshake v0 tokens without a header
    served       requests go to the dispatch; SaslHandshake may re-authenticate (KIP-368)
    failed       the error response is sent after a delay, then the connection closes

Note: as in Kafka, the error response is delayed by `connection.failed.authentication.delay.ms`,
which slows down guessing; the delay is a timer entry and blocks nothing. A connection whose session
has expired is not closed by a timer, but at its next request.
"""

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from time import perf_counter_ns
from typing import Final, Protocol

from headwater.broker.authentication.sasl_listener import SaslListener
from headwater.broker.requests.call import Call
from headwater.broker.requests.request_counters import RequestCounters
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ConnectionLost, ProtocolError, SaslAuthenticationFailed
from headwater.common.principal import Principal, Requester
from headwater.network.request_service import (
    AuthenticatingConnection,
    ResponseSlot,
    ServedConnection,
    Service,
)
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import read
from headwater.protocol.headers import SIZE_BYTES, RequestHeader, read_request_header
from headwater.protocol.messages.api_versions import ApiVersionsResponse
from headwater.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headwater.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import WakeupTimer
from headwater.security.authentication.sasl_exchange import SaslServer
from headwater.security.authentication.sasl_text import printable

_log = logging.getLogger(__name__)

_SHORTEST_SESSION_MS: Final = 1_000
"""Minimum interval between re-authentications, as in Kafka 3.9."""

_HANDSHAKE_KEY: Final = int(ApiKey.SASL_HANDSHAKE)

SMALL_FRAME_BYTES: Final = 65_536
"""Largest frame before authentication, except for the tokens of OAUTHBEARER.

ApiVersions and SaslHandshake fit with the longest client id that the header can carry (32,767
bytes), and so do the user names and passwords of PLAIN and SCRAM.
"""


class _Stage(Enum):
    GREETING = "greeting"
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    SERVED = "served"
    FAILED = "failed"


class AuthenticatedService(Service, Protocol):
    """Serves the requests of authenticated connections."""

    @property
    def counters(self) -> Mapping[ApiKey, RequestCounters]: ...

    def handle_api_versions(self, slot: ResponseSlot, frame: memoryview) -> None:
        """Answer ApiVersions of a connection that is not authenticated yet."""


def sasl_authenticator(
    connection: AuthenticatingConnection, *, listener: SaslListener, dispatch: AuthenticatedService
) -> None:
    """Authenticate a new connection."""
    authenticator = SaslAuthenticator(connection, listener, dispatch)
    connection.set_service(authenticator, frame_limit_bytes=authenticator.token_limit_bytes())


class SaslAuthenticator:
    """`headwater.network.request_service.Service` for one connection."""

    def __init__(
        self,
        connection: AuthenticatingConnection,
        listener: SaslListener,
        dispatch: AuthenticatedService,
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._dispatch = dispatch
        self._stage = _Stage.GREETING
        self._mechanism = ""
        self._exchange: SaslServer | None = None
        self._has_headers = True
        self._user: str | None = None
        # On the steady clock; None for a session that does not expire.
        self._expires_ms: int | None = None
        self._renewed_ms: int | None = None
        self._wrong_mechanism: str | None = None

    def token_limit_bytes(self) -> int:
        """Largest frame until the peer is authenticated, in bytes."""
        limit_bytes = self._listener.receive_limit_bytes
        offered = self._listener.mechanisms.get(self._mechanism)
        if offered is not None and offered.has_large_tokens:
            return limit_bytes
        return min(limit_bytes, SMALL_FRAME_BYTES)

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:
        match self._stage:
            case _Stage.SERVED:
                self._serve_authenticated(slot, frame)
            case _Stage.TOKENS if not self._has_headers:
                self._handle_raw_token(slot, bytes(frame))
            case _Stage.TOKENS:
                self._handle_token(slot, frame)
            case _Stage.GREETING | _Stage.HANDSHAKE:
                self._handle_unauthenticated(slot, frame)
            case _Stage.FAILED:
                raise ConnectionLost("request after failed authentication")

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        self._dispatch.failed(connection, error)

    def closed(self, connection: ServedConnection) -> None:
        self._dispatch.closed(connection)

    # Authenticated.

    def _serve_authenticated(self, slot: ResponseSlot, frame: memoryview) -> None:
        if self._expires_ms is not None:
            now_ms = self._listener.clock.steady_ms()
            is_handshake = int.from_bytes(frame[:2], "big") == _HANDSHAKE_KEY
            if is_handshake and self._may_renew(now_ms):
                self._renewed_ms = now_ms
                self._handle_unauthenticated(slot, frame)
                return
            if now_ms > self._expires_ms:
                self._listener.counters.expired += 1
                raise ConnectionLost(f"the session of {self._user} has expired")
        self._dispatch.serve(slot, frame)

    def _may_renew(self, now_ms: int) -> bool:
        return self._renewed_ms is None or now_ms - self._renewed_ms >= _SHORTEST_SESSION_MS

    # Not authenticated.

    def _handle_unauthenticated(self, slot: ResponseSlot, frame: memoryview) -> None:
        header = read_request_header(frame)
        key = header.api.key
        if key is ApiKey.API_VERSIONS and self._stage is _Stage.GREETING:
            if header.version <= header.api.newest:
                self._stage = _Stage.HANDSHAKE
            self._dispatch.handle_api_versions(slot, frame)
        elif key is ApiKey.SASL_HANDSHAKE:
            request = read(SaslHandshakeRequest, header.version, frame[header.body_position :])
            self._handle_handshake(self._call(header, slot), request.mechanism)
        else:
            # Logged for operators: the client often uses plaintext by mistake.
            raise ProtocolError(
                f"{header.api.name} before SASL authentication; set security.protocol and "
                "sasl.mechanism of the client to match the listener"
            )

    def _handle_handshake(self, call: Call, mechanism: str) -> None:
        enabled = tuple(self._listener.mechanisms)
        offered = self._listener.mechanisms.get(mechanism)
        if offered is None:
            self._fail(
                call,
                SaslHandshakeResponse(
                    error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
                ),
                f"mechanism {printable(mechanism)} is not enabled; enabled are "
                f"{', '.join(enabled)}",
            )
            return
        self._has_headers = call.version > 0
        self._stage = _Stage.TOKENS
        self._wrong_mechanism = None
        if self._user is not None and mechanism != self._mechanism:
            self._wrong_mechanism = mechanism
        self._exchange = offered.begin()
        self._mechanism = self._mechanism if self._wrong_mechanism else mechanism
        self._connection.set_service(self, frame_limit_bytes=self.token_limit_bytes())
        call.answer(SaslHandshakeResponse(mechanisms=enabled))

    def _handle_token(self, slot: ResponseSlot, frame: memoryview) -> None:
        header = read_request_header(frame)
        call = self._call(header, slot)
        if header.api.key is not ApiKey.SASL_AUTHENTICATE:
            self._fail_unexpected_request(call)
            return
        request = read(SaslAuthenticateRequest, header.version, frame[header.body_position :])
        token = bytes(request.auth_bytes)
        self._prepare(slot, token, lambda: self._evaluate_token(call, token))

    def _evaluate_token(self, call: Call, client_token: bytes) -> None:
        try:
            token = self._step(client_token)
        except SaslAuthenticationFailed as refused:
            response = SaslAuthenticateResponse(
                error_code=refused.code,
                error_message=refused.client_message or self._error_message(),
            )
            self._fail(call, response, str(refused))
            return
        # The session may be limited in time, and the response to the last token has its lifetime.
        lifetime_ms = self._complete() if self._is_complete() else 0
        call.answer(SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms))

    def _handle_raw_token(self, slot: ResponseSlot, token: bytes) -> None:
        self._prepare(slot, token, lambda: self._evaluate_raw_token(slot, token))

    def _prepare(self, slot: ResponseSlot, token: bytes, then: Callable[[], None]) -> None:
        """Call `then` when the token can be validated; serve no other request until then."""
        offered = self._listener.mechanisms[self._mechanism]
        if offered.prepare is None or self._wrong_mechanism is not None:
            then()
            return

        def evaluate() -> None:
            if not self._connection.is_closed:
                then()

        slot.hold()
        offered.prepare(token, evaluate)

    def _evaluate_raw_token(self, slot: ResponseSlot, token: bytes) -> None:
        try:
            answer = self._step(token)
        except SaslAuthenticationFailed as refused:
            # Raw tokens have no error field: closing the connection is the answer.
            self._fail_raw(slot, str(refused))
            return
        if self._is_complete():
            self._complete()
        slot.respond([len(answer).to_bytes(SIZE_BYTES, "big") + answer])

    def _step(self, token: bytes) -> bytes:
        assert self._exchange is not None
        if self._wrong_mechanism is not None:
            raise SaslAuthenticationFailed(
                f"re-authentication with {self._wrong_mechanism} instead of {self._mechanism}",
                client_message=f"SASL mechanism '{self._wrong_mechanism}' requested by client "
                "is not "
                f"supported for re-authentication of mechanism '{self._mechanism}'",
            )
        answer = self._exchange.respond(token)
        user = self._exchange.user
        if self._user is not None and user is not None and user != self._user:
            raise SaslAuthenticationFailed(
                f"re-authentication as {printable(user)} instead of {printable(self._user)}",
                client_message="Cannot change principals during re-authentication from "
                f"User.{self._user}: User.{user}",
            )
        return answer

    def _is_complete(self) -> bool:
        return self._exchange is not None and self._exchange.is_complete

    def _complete(self) -> int:
        """Start serving requests; return the session lifetime, 0 if it is unlimited."""
        listener, exchange = self._listener, self._exchange
        assert exchange is not None
        assert exchange.user is not None
        if self._user is None:
            listener.counters.succeeded += 1
            _log.debug(
                "Authenticated: client=%s principal=User:%s",
                self._connection.address,
                exchange.user,
            )
        else:
            listener.counters.renewed += 1
        self._user = exchange.user
        self._exchange = None
        self._stage = _Stage.SERVED
        connection = self._connection
        connection.requester = Requester(
            Principal("User", self._user), connection.address.peer_host
        )
        connection.set_service(self, frame_limit_bytes=listener.request_limit_bytes)
        return self._set_expiry(exchange.expires_ms)

    def _set_expiry(self, credential_expires_ms: int | None) -> int:
        clock = self._listener.clock
        max_reauth_ms = self._listener.mechanisms[self._mechanism].max_reauth_ms
        limits = [max_reauth_ms] if max_reauth_ms > 0 else []
        if credential_expires_ms is not None:
            limits.append(max(0, credential_expires_ms - clock.now_ms()))
        if not limits:
            return 0
        lifetime_ms = min(limits)
        self._expires_ms = clock.steady_ms() + lifetime_ms
        return lifetime_ms

    # Failures.

    def _error_message(self) -> str:
        """Kafka's error message, which does not reveal whether the user exists."""
        what = "authentication" if self._user is None else "re-authentication"
        return (
            f"Authentication failed during {what} due to invalid credentials "
            f"with SASL mechanism {self._mechanism}"
        )

    def _fail_unexpected_request(self, call: Call) -> None:
        """Reject any other API during authentication, from the header alone.

        Kafka parses the body to build an error response of that API. Here only ApiVersions and
        SaslHandshake are answered, since an unauthenticated peer must not choose what is parsed.
        """
        key = call.header.api.key
        reason = (
            f"Unexpected Kafka request of type {call.header.api.name} during SASL authentication."
        )
        error_code = ErrorCode.ILLEGAL_SASL_STATE
        if key is ApiKey.API_VERSIONS:
            self._fail(call, ApiVersionsResponse(error_code=error_code), reason)
        elif key is ApiKey.SASL_HANDSHAKE:
            self._fail(call, SaslHandshakeResponse(error_code=error_code), reason)
        else:
            self._fail_raw(call, reason)

    def _fail(self, call: Call, response: Message, reason: str) -> None:
        def leave() -> None:
            if not call.is_disconnected:
                call.answer(response)
                self._connection.drain()

        self._record_failure(reason)
        call.hold()
        self._later(leave)

    def _fail_raw(self, held: ResponseSlot | Call, reason: str) -> None:
        """Close the connection after the delay, without a response."""
        self._record_failure(reason)
        held.hold()
        self._later(self._connection.close)

    def _record_failure(self, reason: str) -> None:
        self._stage = _Stage.FAILED
        counters = self._listener.counters
        if self._user is None:
            counters.failed += 1
        else:
            counters.not_renewed += 1
        self._exchange = None
        _log.warning("Authentication failed: client=%s reason=%s", self._connection.address, reason)

    def _later(self, then: Callable[[], None]) -> None:
        delay_ms = self._listener.failed_delay_ms
        if delay_ms <= 0:
            then()
        else:
            alarm = WakeupTimer(self._listener.timer, then)
            alarm.set(self._listener.clock.steady_ms() + delay_ms)

    def _call(self, header: RequestHeader, slot: ResponseSlot) -> Call:
        counters = self._dispatch.counters.get(header.api.key)
        if counters is None:
            raise ProtocolError(f"{header.api.name} is not supported by this broker")
        return Call(header, slot, counters, perf_counter_ns())

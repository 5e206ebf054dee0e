"""Requests and responses over one connection, in the highest common version.

It starts with ApiVersions and, if configured, SASL authentication. A lost channel cannot be used
again; reconnecting is the task of `broker_connection`.

Note: a request that the broker's versions cannot express fails later through `on_error`, like any
other failure, and not inside `send`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final, cast

from headwater import __version__
from headwater.client.errors import (
    InvalidArgument,
    KafkaError,
    NetworkException,
    UnsupportedVersion,
    from_failure,
)
from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.node_api_versions import NodeApiVersions, node_api_versions
from headwater.client.network.oauth_token_cache import OAuthTokenCache
from headwater.client.settings import ClientSettings, login_of
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    AuthenticationFailed,
    ConnectionLost,
    ProtocolError,
    UnsupportedInVersion,
)
from headwater.common.ports import Clock, Random
from headwater.network.peer import Peer, PeerSettings, SocketAddress
from headwater.network.tls.tls_endpoints import ClientTls
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, response_class, write
from headwater.protocol.headers import request_frame, response_body_position
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.older_versions import Message
from headwater.protocol.send_parts import Part
from headwater.records.batch_header import Buffer

if TYPE_CHECKING:
    from headwater.security.authentication.oauth_bearer import OAuthBearerCredentials
    from headwater.security.authentication.sasl_client_authenticator import SaslClientAuthenticator
    from headwater.security.authentication.sasl_credentials import Credentials

_CORRELATION_LIMIT: Final = 2**31 - 1
# Interval of checks whether there is room in flight for a re-authentication.
_ROOM_S: Final = 0.02
_ERROR_CODE: Final = Struct(">h")

Then = Callable[[Any], None]
OnError = Callable[[KafkaError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request with its callbacks. Without `then` no response is expected."""

    message: Message
    newest: int | None
    deadline_ms: int
    then: Then | None
    on_error: OnError


class RequestChannel:
    """Runs on the loop's thread; calls `up` when usable and `down` once when lost."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: Random,
        settings: ClientSettings,
        address: BootstrapAddress,
        *,
        on_connected: Callable[[], None],
        on_disconnected: Callable[[ConnectionLost], None],
        tls: ClientTls | None = None,
        tokens: OAuthTokenCache | None = None,
    ) -> None:
        """`tokens` is set if the client authenticates with OAUTHBEARER."""
        self._tokens = tokens
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._address = address
        self._up = on_connected
        self._down = on_disconnected
        self._correlation_id = 0
        self._peer = Peer(
            loop,
            PeerSettings(
                max_in_flight_requests_per_connection=(
                    settings.max_in_flight_requests_per_connection
                ),
                send_buffer_bytes=settings.send_buffer_bytes,
                receive_buffer_bytes=settings.receive_buffer_bytes,
                headwater_answer_max_bytes=settings.headwater_answer_max_bytes,
            ),
            on_connected=self._negotiate,
            on_disconnected=self._lost,
            tls=tls,
            host=address.host,
        )
        self._authenticator: SaslClientAuthenticator | None = None
        self._has_answered = False
        self._renewal: asyncio.TimerHandle | None = None
        self.versions: NodeApiVersions | None = None
        """Set as soon as the channel is usable."""

    @property
    def may_send(self) -> bool:
        return self.versions is not None and self._authenticator is None and self._peer.may_send

    @property
    def in_flight_count(self) -> int:
        return self._peer.in_flight_count

    def connect(self, where: SocketAddress) -> None:
        limit_ms = self._settings.socket_connection_setup_timeout_ms
        self._peer.connect(where, deadline_ms=self._clock.steady_ms() + limit_ms)

    def send(self, request: Request) -> None:
        """Call only if `may_send`."""
        assert self.versions is not None
        try:
            version = self.versions.choose(request.message.api, newest=request.newest)
            then = None if request.then is None else self._reading(request, version)
            self._transmit(
                request.message,
                version,
                request.deadline_ms,
                then,
                lambda lost: request.on_error(from_failure(self._with_hint(lost))),
            )
        except (UnsupportedVersion, InvalidArgument) as error:
            self._loop.call_soon(request.on_error, error)
        except UnsupportedInVersion as error:
            self._loop.call_soon(request.on_error, UnsupportedVersion(str(error)))

    def keep_answer(self) -> bool:
        """See `broker_connection`."""
        return self._peer.keep_frame()

    def sweep(self, now_ms: int) -> None:
        self._peer.sweep(now_ms)

    def close(self) -> None:
        self._peer.close()

    # API versions.

    def _negotiate(self) -> None:
        self._request_versions(APIS[ApiKey.API_VERSIONS].newest)

    def _request_versions(self, version: int) -> None:
        request = ApiVersionsRequest(
            client_software_name="headwater", client_software_version=__version__
        )

        def then(frame: memoryview) -> None:
            self._versions_arrived(frame, version)

        self._transmit(
            request,
            version,
            self._clock.steady_ms() + self._settings.request_timeout_ms,
            then,
            lambda _: None,
        )

    def _versions_arrived(self, frame: memoryview, requested: int) -> None:
        """Read the first response. To an unsupported version it comes in version 0."""
        body = frame[4:]
        try:
            (code,) = _ERROR_CODE.unpack_from(body)
        except struct_error as error:
            raise ProtocolError("malformed response to ApiVersions") from error
        is_too_new = code == ErrorCode.UNSUPPORTED_VERSION and requested > 0
        response = read(ApiVersionsResponse, 0 if is_too_new else requested, body)
        if is_too_new:
            # Brokers before 2.4 do not list their versions here; all support version 0.
            own = node_api_versions(response).highest(ApiKey.API_VERSIONS, newest=requested - 1)
            self._request_versions(own or 0)
            return
        if response.error_code is not ErrorCode.NONE:
            raise ProtocolError(f"ApiVersions failed with {response.error_code.name}")
        versions = node_api_versions(response)
        credentials = None if self._tokens is not None else login_of(self._settings)
        if self._tokens is not None:
            self._log_in_with_token(self._tokens, versions)
        elif credentials is None:
            self.versions = versions
            self._up()
        else:
            self._log_in(cast("Credentials", credentials), versions)

    # Authentication, and re-authentication before the session ends (KIP-368).

    def _log_in_with_token(self, tokens: OAuthTokenCache, versions: NodeApiVersions) -> None:
        """Get a token and authenticate; during a renewal other requests continue."""

        def then(credentials: "OAuthBearerCredentials") -> None:
            if not self._peer.is_closed:
                self._log_in(credentials, versions)

        tokens.get_token(then, self._peer.close)

    def _log_in(
        self, credentials: "Credentials | OAuthBearerCredentials", versions: NodeApiVersions
    ) -> None:
        """Authenticate. Other requests wait; requests in flight complete first.

        A rejection is raised inside the peer's callback and closes the connection with it.
        """
        self._authenticator = authenticator = credentials.login(self._rng)

        def send(message: Message, version: int) -> None:
            shape = response_class(message.api)
            api = APIS[message.api]

            def on_response(frame: memoryview) -> None:
                body = frame[response_body_position(api, version, frame) :]
                following = authenticator.received(read(shape, version, body))
                if following is None:
                    self._logged_in(credentials, versions, authenticator)
                else:
                    send(following, _login_version(versions, following))

            deadline_ms = self._clock.steady_ms() + self._settings.request_timeout_ms
            self._transmit(message, version, deadline_ms, on_response, lambda _: None)

        def begin() -> None:
            if self._peer.may_send:
                self._renewal = None
                send(authenticator.begin(), authenticator.handshake_version)
            else:
                # The maximum is in flight; no further requests are sent meanwhile.
                self._renewal = self._loop.call_later(_ROOM_S, begin)

        begin()

    def _logged_in(
        self,
        credentials: "Credentials | OAuthBearerCredentials",
        versions: NodeApiVersions,
        authenticator: "SaslClientAuthenticator",
    ) -> None:
        self._authenticator = None
        self.versions = versions
        delay_ms = authenticator.renewal_ms()
        if delay_ms is not None and self._tokens is not None:
            self._renewal = self._loop.call_later(
                delay_ms / 1000, self._log_in_with_token, self._tokens, versions
            )
        elif delay_ms is not None:
            self._renewal = self._loop.call_later(
                delay_ms / 1000, self._log_in, credentials, versions
            )
        self._up()

    def _with_hint(self, lost: ConnectionLost) -> ConnectionLost:
        """Add a hint if the broker closed after ApiVersions: it may require SASL."""
        is_login_missing = type(lost) is ConnectionLost and login_of(self._settings) is None
        if self._has_answered or not is_login_missing:
            return lost
        return ConnectionLost(
            f"{lost} at the first request; if this listener requires SASL, "
            "set security.protocol and sasl.mechanism"
        )

    def _lost(self, lost: ConnectionLost) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        self._down(lost)

    # Frames.

    def _transmit(
        self,
        message: Message,
        version: int,
        deadline_ms: int,
        then: Callable[[memoryview], None] | None,
        on_error: Callable[[ConnectionLost], None],
    ) -> None:
        body = _written(message, version)
        self._correlation_id = correlation_id = (self._correlation_id + 1) % _CORRELATION_LIMIT
        frame = request_frame(
            APIS[message.api], version, correlation_id, self._settings.client_id, body
        )
        parts = _buffers(frame)
        if then is None:
            self._peer.send_without_response(parts)
        else:
            self._peer.send_request(
                correlation_id, parts, deadline_ms=deadline_ms, then=then, on_error=on_error
            )

    def _reading(self, request: Request, version: int) -> Callable[[memoryview], None]:
        api = APIS[request.message.api]
        shape = response_class(api.key)
        hand_over = request.then
        assert hand_over is not None

        def then(frame: memoryview) -> None:
            try:
                body = frame[response_body_position(api, version, frame) :]
                answer = read(shape, version, body)
            except ProtocolError as error:
                # The peer has removed the request already, so it must be failed here.
                request.on_error(
                    NetworkException(f"malformed response from {self._address}: {error}")
                )
                raise
            self._has_answered = True
            hand_over(answer)

        return then


def _login_version(versions: NodeApiVersions, message: Message) -> int:
    version = versions.highest(message.api)
    if version is None:
        raise AuthenticationFailed("the broker does not support SaslAuthenticate")
    return version


def _written(message: Message, version: int) -> list[Part]:
    """Encode a message; an argument that does not fit fails only this request."""
    try:
        return write(message, version)
    except (AttributeError, TypeError, ValueError, struct_error) as error:
        name = APIS[message.api].name
        raise InvalidArgument(f"cannot encode {name} request: {error}") from error


def _buffers(parts: list[Part]) -> list[Buffer]:
    """The parts as buffers; clients never send files."""
    buffers: list[Buffer] = []
    for part in parts:
        assert isinstance(part, Buffer)
        buffers.append(part)
    return buffers

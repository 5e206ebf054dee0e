"""A connection to one broker for one purpose, with reconnects and backoff.

    idle        no request yet, or the last connection was closed on our side
    connecting  the connection is set up, and ApiVersions is requested
    open        requests are sent, unless re-authentication is in progress
    backoff     the last attempt failed; requests fail until the backoff ends

ApiVersions is requested on every connection: after an upgrade and restart a broker supports other
versions, and during a rolling upgrade both sides use the newest version they share.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Final, Protocol

from headwater.broker.inter_broker.request import (
    Buffer,
    InterBrokerRequest,
    PendingResponse,
    read_answer,
    request_frame_of,
)
from headwater.common.exceptions import (
    AuthenticationFailed,
    ConnectionLost,
    HeadwaterError,
    ProtocolError,
    QueueFull,
    RequestTimedOut,
    UnsupportedInVersion,
    UnsupportedMechanism,
)
from headwater.common.ports import Clock
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.older_versions import Message
from headwater.security.authentication.sasl_client_authenticator import SaslClientAuthenticator

_log = logging.getLogger(__name__)

RECONNECT_BACKOFF_MS: Final = 50
RECONNECT_BACKOFF_MAX_MS: Final = 1_000
WAITING_MAX: Final = 1_000
"""Requests that may wait for a connection; further ones fail."""

CONNECT_MS: Final = 10_000
"""Timeout for setting up a connection: socket.connection.setup.timeout.ms."""

_API_VERSIONS: Final = 3
_SOFTWARE: Final = "headwater"


class ChannelConnection(Protocol):
    """What a channel needs of a connection, which is a `headwater.network.peer.Peer`."""

    @property
    def may_send(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    def send_request(
        self,
        correlation_id: int,
        parts: list[Buffer],
        *,
        deadline_ms: int,
        then: Callable[[memoryview], None],
        on_error: Callable[[ConnectionLost], None],
    ) -> None: ...

    def sweep(self, now_ms: int) -> None: ...

    def close(self) -> None: ...


Dial = Callable[
    [BrokerEndpoint, int, Callable[[], None], Callable[[ConnectionLost], None]], ChannelConnection
]
"""Starts a connection: endpoint, deadline, callbacks for connected and disconnected."""


Versions = Mapping[int, tuple[int, int]]
"""The oldest and newest version of each API that the other broker supports."""

LogIn = Callable[[], SaslClientAuthenticator]
"""Starts an authentication."""


class InterBrokerChannel:
    """Sends requests to one broker. Only for the loop's thread."""

    def __init__(
        self,
        *,
        where: Callable[[], BrokerEndpoint | None],
        dial: Dial,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        client_id: str,
        log_in: LogIn | None = None,
    ) -> None:
        """`log_in` starts an authentication; None without SASL."""
        self._log_in = log_in
        self._login: SaslClientAuthenticator | None = None
        # When to re-authenticate, and whether it is due.
        self._reauthenticate_ms: int | None = None
        self._is_reauthentication_due = False
        self._where = where
        self._dial = dial
        self._clock = clock
        self._soon = call_soon
        self._client_id = client_id
        self._connection: ChannelConnection | None = None
        self._versions: Versions | None = None
        self._waiting: deque[PendingResponse] = deque()
        self._correlation_ids = count(1)
        self._backoff_ms = RECONNECT_BACKOFF_MS
        self._backoff_end_ms = 0

    def send_request(self, request: InterBrokerRequest) -> None:
        waiting = PendingResponse(request)
        if self._connection is None and self._clock.steady_ms() < self._backoff_end_ms:
            self._fail_soon(
                waiting,
                ConnectionLost("the last connection failed; waiting for reconnect.backoff.ms"),
            )
        elif len(self._waiting) >= WAITING_MAX:
            self._fail_soon(waiting, QueueFull("too many requests are queued for this broker"))
        else:
            self._waiting.append(waiting)
            if self._connection is None:
                self._connect()
            else:
                self._send()

    def sweep(self, now_ms: int) -> None:
        if self._connection is not None:
            self._connection.sweep(now_ms)
        if self._reauthenticate_ms is not None and now_ms >= self._reauthenticate_ms:
            # Re-authenticate as soon as the connection can send, before any other request.
            self._reauthenticate_ms = None
            self._is_reauthentication_due = True
            self._send()
        late = [each for each in self._waiting if now_ms >= each.request.deadline_ms]
        for each in late:
            self._waiting.remove(each)
            each.fail(RequestTimedOut("the request timed out before it was sent"))

    def close(self) -> None:
        """Close the connection and fail all waiting requests."""
        connection, self._connection = self._connection, None
        self._reset()
        if connection is not None:
            connection.close()
        self._fail_all(ConnectionLost("the channel was closed"))

    def _fail_soon(self, waiting: PendingResponse, error: HeadwaterError) -> None:
        self._soon(partial(waiting.fail, error))

    # Connecting and disconnecting.

    def _connect(self) -> None:
        endpoint = self._where()
        if endpoint is None:
            # It may be registered the next moment, so there is no backoff.
            waiting, self._waiting = self._waiting, deque()
            for each in waiting:
                self._fail_soon(each, ConnectionLost("the broker is not registered"))
            return
        deadline_ms = self._clock.steady_ms() + CONNECT_MS
        connection: ChannelConnection

        def down(lost: ConnectionLost) -> None:
            if connection is self._connection:
                self._lost(lost)

        connection = self._connection = self._dial(
            endpoint, deadline_ms, self._request_api_versions, down
        )

    def _request_api_versions(self) -> None:
        """Connected: request ApiVersions."""
        assert self._connection is not None
        correlation_id = next(self._correlation_ids)
        request = ApiVersionsRequest(
            client_software_name=_SOFTWARE, client_software_version=_SOFTWARE
        )
        self._connection.send_request(
            correlation_id,
            request_frame_of(request, _API_VERSIONS, correlation_id, self._client_id),
            deadline_ms=self._clock.steady_ms() + CONNECT_MS,
            then=partial(self._api_versions_received, request),
            # The connection's own `down` callback handles this.
            on_error=lambda _: None,
        )

    def _api_versions_received(self, request: ApiVersionsRequest, frame: memoryview) -> None:
        response = read_answer(request, _API_VERSIONS, frame)
        assert isinstance(response, ApiVersionsResponse)
        versions = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }
        if self._log_in is None:
            self._open(versions)
        else:
            self._authenticate(self._log_in, versions)

    def _open(self, versions: Versions) -> None:
        self._versions = versions
        self._backoff_ms = RECONNECT_BACKOFF_MS
        self._send()

    def _authenticate(self, log_in: LogIn, versions: Versions) -> None:
        """Authenticate.

        A failure is raised in the connection's callback, which closes the connection with that
        reason.
        """
        self._is_reauthentication_due = False
        self._login = login = log_in()

        def send(message: Message, version: int) -> None:
            assert self._connection is not None
            correlation_id = next(self._correlation_ids)
            self._connection.send_request(
                correlation_id,
                request_frame_of(message, version, correlation_id, self._client_id),
                deadline_ms=self._clock.steady_ms() + CONNECT_MS,
                then=partial(received, message, version),
                on_error=lambda _: None,
            )

        def received(message: Message, version: int, frame: memoryview) -> None:
            following = login.received(read_answer(message, version, frame))
            if following is None:
                self._login = None
                delay_ms = login.renewal_ms()
                if delay_ms is not None:
                    self._reauthenticate_ms = self._clock.steady_ms() + delay_ms
                self._open(versions)
            else:
                shared = _shared_version(following.api, versions)
                if shared is None:
                    raise AuthenticationFailed("the other broker does not support SaslAuthenticate")
                send(following, shared)

        send(login.begin(), login.handshake_version)

    def _reset(self) -> None:
        """Reset the state of a closed connection."""
        self._versions = None
        self._login = None
        self._reauthenticate_ms = None
        self._is_reauthentication_due = False

    def _lost(self, lost: ConnectionLost) -> None:
        was_open = self._versions is not None
        self._connection = None
        self._reset()
        if isinstance(lost, AuthenticationFailed | UnsupportedMechanism):
            _log.error(
                "Inter-broker authentication failed: client_id=%s error=%s", self._client_id, lost
            )
        if not was_open:
            self._backoff_end_ms = self._clock.steady_ms() + self._backoff_ms
            self._backoff_ms = min(2 * self._backoff_ms, RECONNECT_BACKOFF_MAX_MS)
        self._fail_all(lost)

    def _fail_all(self, error: ConnectionLost) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.fail(error)

    # Requests.

    def _send(self) -> None:
        if (
            self._is_reauthentication_due
            and self._connection is not None
            and self._connection.may_send
        ):
            assert self._log_in is not None
            assert self._versions is not None
            self._authenticate(self._log_in, self._versions)
        while (
            self._connection is not None
            and self._versions is not None
            and self._login is None
            and self._waiting
            and self._connection.may_send
        ):
            self._send_one(self._connection, self._versions, self._waiting.popleft())

    def _send_one(
        self, connection: ChannelConnection, versions: Versions, waiting: PendingResponse
    ) -> None:
        asked = waiting.request
        version = _shared_version(asked.request.api, versions)
        if version is None:
            name = APIS[asked.request.api].name
            error = UnsupportedInVersion(f"the other broker supports no common version of {name}")
            self._fail_soon(waiting, error)
            return
        correlation_id = next(self._correlation_ids)
        try:
            parts = request_frame_of(asked.request, version, correlation_id, self._client_id)
        except UnsupportedInVersion as error:
            self._fail_soon(waiting, error)
            return
        connection.send_request(
            correlation_id,
            parts,
            deadline_ms=asked.deadline_ms,
            then=partial(self._answered, waiting, version),
            on_error=waiting.fail,
        )

    def _answered(self, waiting: PendingResponse, version: int, frame: memoryview) -> None:
        try:
            response = read_answer(waiting.request.request, version, frame)
        except ProtocolError as error:
            waiting.fail(ConnectionLost(f"malformed response: {error}"))
            raise
        waiting.answer(response)
        self._send()


def _shared_version(key: ApiKey, versions: Versions) -> int | None:
    """Return the newest version that both sides support."""
    api = APIS[key]
    oldest, newest = versions.get(api.key, (0, -1))
    version = min(api.newest_served(unstable=False), newest)
    return version if version >= max(api.oldest, oldest) else None

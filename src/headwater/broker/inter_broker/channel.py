"""One errand's way to one broker: a connection, the next one after it broke, and the wait between.

    idle        nobody has asked yet, or the last connection was closed in peace
    knocking    the connection is being made, and the versions are being asked for
    open        requests go out, unless a login is being renewed
    resting     the last try failed; asking fails until the rest is over

What a reader would get wrong: the versions are asked for on every connection. A broker that was
upgraded has other ones after its restart, and during a rolling upgrade both sides take the newest
that they share.
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
    ConnectionLost,
    HeadwaterError,
    LoginRefused,
    MechanismRefused,
    ProtocolError,
    RequestTimedOut,
    TooMuchWork,
    UnsupportedInVersion,
)
from headwater.common.ports import Clock
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.older_versions import Message
from headwater.security.authentication.sasl_client_authenticator import SaslClientAuthenticator

_log = logging.getLogger(__name__)

SHORTEST_REST_MS: Final = 50
LONGEST_REST_MS: Final = 1_000
WAITING_MAX: Final = 1_000
"""Requests that may wait for a connection. Whoever has more to ask is told to come later."""

CONNECT_MS: Final = 10_000
"""How long a connection may take to come about: socket.connection.setup.timeout.ms."""

_API_VERSIONS: Final = 3
_SOFTWARE: Final = "headwater"


class ChannelConnection(Protocol):
    """What a link asks of a connection: `headwater.network.peer.Peer` has it."""

    @property
    def may_send(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    def ask(
        self,
        correlation_id: int,
        parts: list[Buffer],
        *,
        deadline_ms: int,
        then: Callable[[memoryview], None],
        otherwise: Callable[[ConnectionLost], None],
    ) -> None: ...

    def sweep(self, now_ms: int) -> None: ...

    def close(self) -> None: ...


Dial = Callable[
    [BrokerEndpoint, int, Callable[[], None], Callable[[ConnectionLost], None]], ChannelConnection
]
"""Begins a connection: where to, by when, and whom to tell when it is up, and when it is down."""


Versions = Mapping[int, tuple[int, int]]
"""The oldest and the newest version of each API that the other side has."""

LogIn = Callable[[], SaslClientAuthenticator]
"""Begins a login."""


class InterBrokerChannel:
    """See the module. For the loop's thread only."""

    def __init__(
        self,
        *,
        where: Callable[[], BrokerEndpoint | None],
        dial: Dial,
        clock: Clock,
        soon: Callable[[Callable[[], None]], object],
        client_id: str,
        log_in: LogIn | None = None,
    ) -> None:
        """`log_in` begins a login, where the others ask for one."""
        self._log_in = log_in
        self._login: SaslClientAuthenticator | None = None
        # When to renew the login, and whether it is time.
        self._renewal_ms: int | None = None
        self._is_due = False
        self._where = where
        self._dial = dial
        self._clock = clock
        self._soon = soon
        self._client_id = client_id
        self._line: ChannelConnection | None = None
        self._versions: Versions | None = None
        self._waiting: deque[PendingResponse] = deque()
        self._numbers = count(1)
        self._rest_ms = SHORTEST_REST_MS
        self._rested_ms = 0

    def ask(self, asked: InterBrokerRequest) -> None:
        waiting = PendingResponse(asked)
        if self._line is None and self._clock.steady_ms() < self._rested_ms:
            self._fail_soon(waiting, ConnectionLost("the last connection failed just now"))
        elif len(self._waiting) >= WAITING_MAX:
            self._fail_soon(waiting, TooMuchWork("too many requests wait for this broker"))
        else:
            self._waiting.append(waiting)
            if self._line is None:
                self._knock()
            else:
                self._send()

    def sweep(self, now_ms: int) -> None:
        if self._line is not None:
            self._line.sweep(now_ms)
        if self._renewal_ms is not None and now_ms >= self._renewal_ms:
            # As soon as there is room, and before anything else.
            self._renewal_ms = None
            self._is_due = True
            self._send()
        late = [each for each in self._waiting if now_ms >= each.asked.deadline_ms]
        for each in late:
            self._waiting.remove(each)
            each.fail(RequestTimedOut("the request was not sent in time"))

    def close(self) -> None:
        """End the connection; what waits fails."""
        line, self._line = self._line, None
        self._forget()
        if line is not None:
            line.close()
        self._fail_all(ConnectionLost("closed on our side"))

    def _fail_soon(self, waiting: PendingResponse, error: HeadwaterError) -> None:
        self._soon(partial(waiting.fail, error))

    # A connection and its end.

    def _knock(self) -> None:
        endpoint = self._where()
        if endpoint is None:
            # It may be there the next moment, so there is nothing to rest from.
            waiting, self._waiting = self._waiting, deque()
            for each in waiting:
                self._fail_soon(each, ConnectionLost("the broker is not known to be up"))
            return
        deadline_ms = self._clock.steady_ms() + CONNECT_MS
        line: ChannelConnection

        def down(lost: ConnectionLost) -> None:
            if line is self._line:
                self._lost(lost)

        line = self._line = self._dial(endpoint, deadline_ms, self._greet, down)

    def _greet(self) -> None:
        """The connection is there: ask what the other side speaks."""
        assert self._line is not None
        number = next(self._numbers)
        greeting = ApiVersionsRequest(
            client_software_name=_SOFTWARE, client_software_version=_SOFTWARE
        )
        self._line.ask(
            number,
            request_frame_of(greeting, _API_VERSIONS, number, self._client_id),
            deadline_ms=self._clock.steady_ms() + CONNECT_MS,
            then=partial(self._greeted, greeting),
            # The end of the connection is told anyway.
            otherwise=lambda _: None,
        )

    def _greeted(self, greeting: ApiVersionsRequest, frame: memoryview) -> None:
        response = read_answer(greeting, _API_VERSIONS, frame)
        assert isinstance(response, ApiVersionsResponse)
        versions = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }
        if self._log_in is None:
            self._open(versions)
        else:
            self._begin_login(self._log_in, versions)

    def _open(self, versions: Versions) -> None:
        self._versions = versions
        self._rest_ms = SHORTEST_REST_MS
        self._send()

    def _begin_login(self, log_in: LogIn, versions: Versions) -> None:
        """A refusal is raised within the line's callback, and so becomes the reason of its end."""
        self._is_due = False
        self._login = login = log_in()

        def say(message: Message, version: int) -> None:
            assert self._line is not None
            number = next(self._numbers)
            self._line.ask(
                number,
                request_frame_of(message, version, number, self._client_id),
                deadline_ms=self._clock.steady_ms() + CONNECT_MS,
                then=partial(heard, message, version),
                otherwise=lambda _: None,
            )

        def heard(message: Message, version: int, frame: memoryview) -> None:
            following = login.heard(read_answer(message, version, frame))
            if following is None:
                self._login = None
                delay_ms = login.renewal_ms()
                if delay_ms is not None:
                    self._renewal_ms = self._clock.steady_ms() + delay_ms
                self._open(versions)
            else:
                shared = _shared_version(following.api, versions)
                if shared is None:
                    raise LoginRefused("the other broker takes no SaslAuthenticate")
                say(following, shared)

        say(login.begin(), login.handshake_version)

    def _forget(self) -> None:
        """The connection is gone, and with it all that was agreed on it."""
        self._versions = None
        self._login = None
        self._renewal_ms = None
        self._is_due = False

    def _lost(self, lost: ConnectionLost) -> None:
        was_open = self._versions is not None
        self._line = None
        self._forget()
        if isinstance(lost, LoginRefused | MechanismRefused):
            _log.error("%s cannot log in at another broker: %s", self._client_id, lost)
        if not was_open:
            self._rested_ms = self._clock.steady_ms() + self._rest_ms
            self._rest_ms = min(2 * self._rest_ms, LONGEST_REST_MS)
        self._fail_all(lost)

    def _fail_all(self, error: ConnectionLost) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.fail(error)

    # Requests.

    def _send(self) -> None:
        if self._is_due and self._line is not None and self._line.may_send:
            assert self._log_in is not None
            assert self._versions is not None
            self._begin_login(self._log_in, self._versions)
        while (
            self._line is not None
            and self._versions is not None
            and self._login is None
            and self._waiting
            and self._line.may_send
        ):
            self._send_one(self._line, self._versions, self._waiting.popleft())

    def _send_one(
        self, line: ChannelConnection, versions: Versions, waiting: PendingResponse
    ) -> None:
        asked = waiting.asked
        version = _shared_version(asked.request.api, versions)
        if version is None:
            name = APIS[asked.request.api].name
            error = UnsupportedInVersion(f"the other broker speaks no version of {name} of ours")
            self._fail_soon(waiting, error)
            return
        number = next(self._numbers)
        try:
            parts = request_frame_of(asked.request, version, number, self._client_id)
        except UnsupportedInVersion as error:
            self._fail_soon(waiting, error)
            return
        line.ask(
            number,
            parts,
            deadline_ms=asked.deadline_ms,
            then=partial(self._answered, waiting, version),
            otherwise=waiting.fail,
        )

    def _answered(self, waiting: PendingResponse, version: int, frame: memoryview) -> None:
        try:
            response = read_answer(waiting.asked.request, version, frame)
        except ProtocolError as error:
            waiting.fail(ConnectionLost(f"the answer cannot be read: {error}"))
            raise
        waiting.answer(response)
        self._send()


def _shared_version(key: ApiKey, versions: Versions) -> int | None:
    """The newest that both sides have."""
    api = APIS[key]
    oldest, newest = versions.get(api.key, (0, -1))
    version = min(api.newest_served(unstable=False), newest)
    return version if version >= max(api.oldest, oldest) else None

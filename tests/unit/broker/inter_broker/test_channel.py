"""A channel to one broker: versions, order, failures, and backoff."""

import random
from collections.abc import Callable

from headwater.broker.inter_broker.channel import (
    CONNECT_MS,
    RECONNECT_BACKOFF_MAX_MS,
    RECONNECT_BACKOFF_MS,
    WAITING_MAX,
    InterBrokerChannel,
    LogIn,
)
from headwater.broker.inter_broker.request import Buffer, InterBrokerRequest
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    AuthenticationFailed,
    ConnectionLost,
    HeadwaterError,
    QueueFull,
    RequestTimedOut,
    UnsupportedInVersion,
)
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import read_request_header, response_frame
from headwater.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from headwater.protocol.messages.fetch import FetchRequest, FetchResponse
from headwater.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from headwater.protocol.messages.sasl_handshake import SaslHandshakeResponse
from headwater.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from headwater.protocol.older_versions import Message
from headwater.security.authentication.plain_mechanism import PlainClient
from headwater.security.authentication.sasl_client_authenticator import SaslClientAuthenticator
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.broker_lab import ScriptedClock

SIZE_BYTES = 4
THEIRS = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.FETCH: (4, 18),
    ApiKey.STOP_REPLICA: (4, 4),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
}


class Line:
    """A connection as a channel sees it, played by the test."""

    def __init__(self, up: Callable[[], None], down: Callable[[ConnectionLost], None]) -> None:
        self.up = up
        self.down = down
        self.is_closed = False
        self.room = 5
        self.asked: list[tuple[int, bytes, Callable[[memoryview], None]]] = []
        self._on_error: list[Callable[[ConnectionLost], None]] = []

    @property
    def may_send(self) -> bool:
        return len(self.asked) < self.room

    def send_request(
        self,
        correlation_id: int,
        parts: list[Buffer],
        *,
        deadline_ms: int,  # noqa: ARG002
        then: Callable[[memoryview], None],
        on_error: Callable[[ConnectionLost], None],
    ) -> None:
        self.asked.append((correlation_id, b"".join(parts)[SIZE_BYTES:], then))
        self._on_error.append(on_error)

    def sweep(self, now_ms: int) -> None:
        """The real one has tests of its own."""

    def close(self) -> None:
        self.lose(ConnectionLost("closed on our side"))

    # What the test does.

    def answer(self, response: Message) -> int:
        """Answer the oldest request; return its version."""
        number, frame, then = self.asked.pop(0)
        self._on_error.pop(0)
        header = read_request_header(memoryview(frame))
        assert header.correlation_id == number
        body = write(response, header.version)
        parts = response_frame(APIS[response.api], header.version, number, body)
        whole = bytearray(b"".join(bytes(part) for part in parts if isinstance(part, Buffer)))
        then(memoryview(whole)[SIZE_BYTES:])
        return header.version

    def lose(self, lost: ConnectionLost) -> None:
        if not self.is_closed:
            self.is_closed = True
            for on_error in self._on_error:
                on_error(lost)
            self.down(lost)


class Lab:
    """A channel, the connections that it opened, and the outcome of requests."""

    def __init__(self, log_in: LogIn | None = None) -> None:
        self.clock = ScriptedClock()
        self.endpoint: BrokerEndpoint | None = BrokerEndpoint(
            listener="PLAINTEXT", host="h", port=1
        )
        self.lines: list[Line] = []
        self.outcomes: list[Message | HeadwaterError] = []
        self._soon: list[Callable[[], None]] = []
        self.link = InterBrokerChannel(
            where=lambda: self.endpoint,
            dial=self._dial,
            clock=self.clock,
            call_soon=self._soon.append,
            client_id="broker-1-control",
            log_in=log_in,
        )

    @property
    def line(self) -> Line:
        return self.lines[-1]

    def ask(self, request: Message | None = None, timeout_ms: int = 1_000) -> None:
        deadline_ms = self.clock.steady_ms() + timeout_ms
        wanted = request or StopReplicaRequest()
        before = len(self.outcomes)
        self.link.send_request(
            InterBrokerRequest(wanted, deadline_ms, self.outcomes.append, self.outcomes.append)
        )
        assert len(self.outcomes) == before, "nothing is told before `ask` has returned"

    def turn(self) -> None:
        soon, self._soon[:] = self._soon[:], []
        for action in soon:
            action()

    def greet(self, versions: dict[ApiKey, tuple[int, int]] | None = None) -> None:
        """Connect, and answer ApiVersions."""
        self.line.up()
        keys = tuple(
            ApiVersion(api_key=key, min_version=oldest, max_version=newest)
            for key, (oldest, newest) in (versions or THEIRS).items()
        )
        self.line.answer(ApiVersionsResponse(api_keys=keys))

    def _dial(
        self,
        endpoint: BrokerEndpoint,
        deadline_ms: int,
        up: Callable[[], None],
        down: Callable[[ConnectionLost], None],
    ) -> Line:
        assert endpoint == self.endpoint
        assert deadline_ms == self.clock.steady_ms() + CONNECT_MS
        self.lines.append(Line(up, down))
        return self.lines[-1]


def test_requests_wait_for_api_versions_and_are_sent_in_order() -> None:
    lab = Lab()
    lab.ask()
    lab.ask(FetchRequest())
    lab.line.up()
    assert len(lab.line.asked) == 1, "only the greeting"
    lab.line.answer(
        ApiVersionsResponse(
            api_keys=tuple(
                ApiVersion(api_key=key, min_version=oldest, max_version=newest)
                for key, (oldest, newest) in THEIRS.items()
            )
        )
    )
    assert lab.line.answer(StopReplicaResponse()) == 4
    assert lab.line.answer(FetchResponse()) == 18
    assert lab.outcomes == [StopReplicaResponse(), FetchResponse()]
    assert len(lab.lines) == 1


def test_newest_shared_version_is_used() -> None:
    lab = Lab()
    lab.ask(FetchRequest())
    lab.greet({ApiKey.FETCH: (4, 16)})
    assert lab.line.answer(FetchResponse()) == 16


def test_unsupported_api_fails_alone() -> None:
    lab = Lab()
    lab.ask()
    lab.ask(FetchRequest())
    lab.greet({ApiKey.FETCH: (4, 18)})
    lab.turn()
    assert isinstance(lab.outcomes[0], UnsupportedInVersion)
    lab.line.answer(FetchResponse())
    assert lab.outcomes[1] == FetchResponse()


def test_lost_connection_fails_all_its_requests_and_the_next_one_is_new() -> None:
    lab = Lab()
    lab.ask()
    lab.greet()
    lab.line.room = 1
    lab.ask()
    lab.line.lose(ConnectionLost("gone"))
    assert [type(each) for each in lab.outcomes] == [ConnectionLost, ConnectionLost]
    # The connection was open, so there is no backoff.
    lab.ask()
    assert len(lab.lines) == 2


def test_unreachable_broker_is_retried_with_growing_backoff() -> None:
    lab = Lab()
    rest_ms = RECONNECT_BACKOFF_MS
    for tries in range(1, 8):
        lab.ask()
        assert len(lab.lines) == tries
        lab.line.lose(ConnectionLost("refused"))
        lab.clock.move(rest_ms - 1)
        lab.ask()
        lab.turn()
        assert len(lab.lines) == tries, "asking fails at once meanwhile"
        lab.clock.move(1)
        rest_ms = min(2 * rest_ms, RECONNECT_BACKOFF_MAX_MS)
    assert len(lab.outcomes) == 14
    assert all(isinstance(each, ConnectionLost) for each in lab.outcomes)


def test_backoff_is_reset_by_a_successful_connection() -> None:
    lab = Lab()
    for _ in range(4):
        lab.ask()
        lab.line.lose(ConnectionLost("refused"))
        lab.clock.move(RECONNECT_BACKOFF_MAX_MS)
    lab.ask()
    lab.greet()
    lab.line.lose(ConnectionLost("gone"))
    lab.ask()
    lab.line.lose(ConnectionLost("refused"))
    lab.clock.move(RECONNECT_BACKOFF_MS)
    lab.ask()
    assert len(lab.lines) == 7


def test_unregistered_broker_is_not_waited_for() -> None:
    lab = Lab()
    lab.endpoint = None
    lab.ask()
    lab.turn()
    assert isinstance(lab.outcomes[0], ConnectionLost)
    lab.endpoint = BrokerEndpoint(listener="PLAINTEXT", host="h", port=2)
    lab.ask()
    lab.greet()
    lab.line.answer(StopReplicaResponse())
    assert lab.outcomes[1] == StopReplicaResponse()


def test_request_that_could_not_be_sent_in_time_fails() -> None:
    lab = Lab()
    lab.ask(timeout_ms=100)
    lab.ask(timeout_ms=200)
    lab.clock.move(100)
    lab.link.sweep(lab.clock.steady_ms())
    assert [type(each) for each in lab.outcomes] == [RequestTimedOut]
    lab.greet()
    lab.line.answer(StopReplicaResponse())
    assert lab.outcomes[1:] == [StopReplicaResponse()]


def test_number_of_waiting_requests_is_bounded() -> None:
    lab = Lab()
    for _ in range(WAITING_MAX + 1):
        lab.ask()
    lab.turn()
    assert [type(each) for each in lab.outcomes] == [QueueFull]


def test_closed_channel_fails_waiting_requests_and_can_be_reused() -> None:
    lab = Lab()
    lab.ask()
    lab.greet()
    lab.link.close()
    assert [type(each) for each in lab.outcomes] == [ConnectionLost]
    assert lab.line.is_closed
    lab.ask()
    assert len(lab.lines) == 2


def logging_in() -> Lab:
    """A channel to brokers that use SASL."""
    rng = SeededRandom(random.Random(1))
    return Lab(lambda: SaslClientAuthenticator("PLAIN", PlainClient("b1", "secret"), rng))


def apis_asked(line: Line) -> list[ApiKey]:
    return [read_request_header(memoryview(frame)).api.key for _, frame, _ in line.asked]


def test_requests_wait_for_authentication() -> None:
    lab = logging_in()
    lab.ask()
    lab.greet()
    assert apis_asked(lab.line) == [ApiKey.SASL_HANDSHAKE]
    assert lab.line.answer(SaslHandshakeResponse(mechanisms=("PLAIN",))) == 1
    assert apis_asked(lab.line) == [ApiKey.SASL_AUTHENTICATE]
    assert lab.line.answer(SaslAuthenticateResponse()) == 2
    assert apis_asked(lab.line) == [ApiKey.STOP_REPLICA]


def test_failed_authentication_is_reported_and_causes_a_backoff() -> None:
    lab = logging_in()
    lab.ask()
    lab.greet()
    lab.line.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    response = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
    try:
        lab.line.answer(response)
    except AuthenticationFailed as refused:
        # The real connection closes with what its callback raises.
        lab.line.lose(refused)
    (outcome,) = lab.outcomes
    assert isinstance(outcome, AuthenticationFailed)
    lab.ask()
    assert len(lab.lines) == 1, "it is not knocked at again at once"


def test_channel_reauthenticates_in_time_and_requests_wait_for_it() -> None:
    lab = logging_in()
    lab.ask()
    lab.greet()
    lab.line.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    lab.line.answer(SaslAuthenticateResponse(session_lifetime_ms=10_000))
    lab.line.room = 1
    lab.clock.move(8_499)
    lab.link.sweep(lab.clock.steady_ms())
    lab.ask()
    lab.line.answer(StopReplicaResponse())
    assert apis_asked(lab.line) == [ApiKey.STOP_REPLICA], "it is too early"
    lab.clock.move(1_000)
    lab.link.sweep(lab.clock.steady_ms())
    assert apis_asked(lab.line) == [ApiKey.STOP_REPLICA], "there is no room for it yet"
    lab.line.answer(StopReplicaResponse())
    assert apis_asked(lab.line) == [ApiKey.SASL_HANDSHAKE]
    lab.line.room = 5
    lab.ask()
    assert apis_asked(lab.line) == [ApiKey.SASL_HANDSHAKE], "whatever room there is"
    lab.line.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    lab.line.answer(SaslAuthenticateResponse(session_lifetime_ms=10_000))
    assert apis_asked(lab.line) == [ApiKey.STOP_REPLICA]
    lab.line.answer(StopReplicaResponse())
    assert len(lab.outcomes) == 3

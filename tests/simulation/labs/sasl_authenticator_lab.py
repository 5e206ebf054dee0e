"""A SASL authenticator before a whole broker, and a connection that the test plays."""

import random
from dataclasses import dataclass, field

from headwater.broker.authentication.sasl_authenticator import SaslAuthenticator
from headwater.broker.authentication.sasl_listener import OfferedMechanism, SaslListener
from headwater.network.request_service import ResponseSlot, Service
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import request_frame
from headwater.protocol.messages.api_versions import ApiVersionsRequest
from headwater.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headwater.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.protocol.older_versions import Message
from headwater.records.batch_header import Buffer
from headwater.security.authentication.plain_mechanism import PlainServer, passwords
from headwater.security.authentication.scram import ScramMechanism, credential_of, salted_password
from headwater.security.authentication.scram_server import ScramServer
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.broker_lab import BrokerLab, Peer, Sent

SHA_256 = ScramMechanism.SCRAM_SHA_256
USERS = {"alice": "alice-secret", "bob": "bob-secret"}
GREETING = ApiVersionsRequest(client_software_name="lab", client_software_version="1")
DELAY_MS = 100
RECEIVE_BYTES, REQUEST_BYTES = 1_000, 1_000_000


class AuthenticatingPeer(Peer):
    """`headwater.network.request_service.AuthenticatingConnection`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_draining = False
        self.frame_limit_bytes = 0

    def set_service(self, service: Service, *, frame_limit_bytes: int) -> None:  # noqa: ARG002
        self.frame_limit_bytes = frame_limit_bytes

    def drain(self) -> None:
        self.is_draining = True


@dataclass
class SaslAuthenticatorLab:
    """A broker behind SASL authentication, and connections to it."""

    max_reauth_ms: int = 0
    delay_ms: int = DELAY_MS
    lab: BrokerLab = field(default_factory=BrokerLab)

    def __post_init__(self) -> None:
        salted = salted_password(SHA_256, "carol-secret", b"salt", 4096)
        kept = credential_of(SHA_256, salted, salt=b"salt", iterations=4096)
        rng = SeededRandom(random.Random(1))
        self.listener = SaslListener(
            name="SASL_PLAINTEXT",
            mechanisms={
                "PLAIN": OfferedMechanism(
                    begin=lambda: PlainServer(passwords(USERS)), max_reauth_ms=self.max_reauth_ms
                ),
                "SCRAM-SHA-256": OfferedMechanism(
                    begin=lambda: ScramServer(SHA_256, {"carol": kept}.get, rng, secret=b"s")
                ),
            },
            clock=self.lab.clock,
            timer=self.lab.broker.timer,
            receive_limit_bytes=RECEIVE_BYTES,
            request_limit_bytes=REQUEST_BYTES,
            failed_delay_ms=self.delay_ms,
        )
        self.peer = AuthenticatingPeer()
        self.gate = SaslAuthenticator(self.peer, self.listener, self.lab.dispatch)

    def send(self, request: Message, version: int | None = None) -> Sent:
        api = APIS[request.api]
        version = api.newest_served(unstable=False) if version is None else version
        parts = request_frame(api, version, 1, "lab", write(request, version))
        frame = bytearray(b"".join(bytes(part) for part in parts if isinstance(part, Buffer)))[4:]
        slot = ResponseSlot(self.peer)
        self.gate.serve(slot, memoryview(frame))
        frame[:] = bytes(len(frame))
        return Sent(request, version, slot, self.peer)

    def raw(self, token: bytes) -> ResponseSlot:
        slot = ResponseSlot(self.peer)
        self.gate.serve(slot, memoryview(bytearray(token)))
        return slot

    def shake_hands(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        request = SaslHandshakeRequest(mechanism=mechanism)
        return self.send(request, version).answer(SaslHandshakeResponse)

    def authenticate(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=token)
        return self.send(request, version).answer(SaslAuthenticateResponse)

    def log_in(self, token: bytes = b"\0alice\0alice-secret") -> SaslAuthenticateResponse:
        self.shake_hands()
        return self.authenticate(token)

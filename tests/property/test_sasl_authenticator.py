"""No client is admitted to a SASL listener without a password, whatever it sends."""

import struct
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.exceptions import ConnectionLost, ProtocolError
from headwater.common.principal import ANONYMOUS
from headwater.protocol.messages.api_versions import ApiVersionsRequest
from headwater.protocol.messages.metadata import MetadataRequest
from headwater.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headwater.protocol.messages.sasl_handshake import SaslHandshakeRequest
from headwater.protocol.older_versions import Message
from tests.simulation.labs.sasl_authenticator_lab import DELAY_MS, SaslAuthenticatorLab

MECHANISMS = st.sampled_from(["PLAIN", "SCRAM-SHA-256", "GSSAPI", ""])
ALMOST = (
    b"",
    b"\0alice\0",
    b"\0\0alice-secret",
    b"\0bob\0alice-secret",
    b"n,,n=carol,r=abc",
    b"n,,n=alice,r=abc",
    b"c=biws,r=abc,p=AAAA",
)
TOKENS = st.sampled_from(ALMOST) | st.binary(max_size=60)
MESSAGES: st.SearchStrategy[tuple[Message, int]] = st.one_of(
    st.tuples(MECHANISMS.map(lambda name: SaslHandshakeRequest(mechanism=name)), st.integers(0, 1)),
    st.tuples(TOKENS.map(lambda token: SaslAuthenticateRequest(auth_bytes=token)), st.just(2)),
    st.just((ApiVersionsRequest(), 0)),
    st.just((MetadataRequest(topics=None), 9)),
)
# Random bytes, and bytes that begin like requests.
FRAMES = st.binary(max_size=60) | st.tuples(
    st.sampled_from([0, 3, 17, 18, 36]), st.integers(-1, 5), st.binary(max_size=30)
).map(lambda parts: struct.pack(">hhih", parts[0], parts[1], 1, -1) + parts[2])


@given(steps=st.lists(MESSAGES | FRAMES, max_size=8), delay_ms=st.sampled_from([0, DELAY_MS]))
@settings(max_examples=150, deadline=None)
def test_no_client_is_admitted_without_a_password(
    steps: list[tuple[Message, int] | bytes], delay_ms: int
) -> None:
    lab = SaslAuthenticatorLab(delay_ms=delay_ms, lab=LAB)
    for step in steps:
        # A protocol violation closes the connection; any other failure is a bug.
        with suppress(ProtocolError, ConnectionLost):
            if isinstance(step, bytes):
                lab.raw(step)
            else:
                lab.send(*step)
            continue
        break
    assert lab.peer.requester.principal == ANONYMOUS
    assert lab.listener.counters.succeeded == 0
    assert lab.peer.frame_limit_bytes < lab.listener.request_limit_bytes


LAB = SaslAuthenticatorLab().lab

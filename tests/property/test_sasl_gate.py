"""Whatever is sent to a listener with SASL, nobody is let in who has not shown a password."""

import struct
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.failures import ConnectionLost, ProtocolError
from headwater.model.requester import ANONYMOUS
from headwater.wire.lifting import Message
from headwater.wire.messages.api_versions import ApiVersionsRequest
from headwater.wire.messages.metadata import MetadataRequest
from headwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headwater.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.sim.gate_lab import DELAY_MS, GateLab

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
# Any bytes, and bytes that begin as requests do.
FRAMES = st.binary(max_size=60) | st.tuples(
    st.sampled_from([0, 3, 17, 18, 36]), st.integers(-1, 5), st.binary(max_size=30)
).map(lambda parts: struct.pack(">hhih", parts[0], parts[1], 1, -1) + parts[2])


@given(steps=st.lists(MESSAGES | FRAMES, max_size=8), delay_ms=st.sampled_from([0, DELAY_MS]))
@settings(max_examples=150, deadline=None)
def test_nobody_is_let_in_without_a_password(
    steps: list[tuple[Message, int] | bytes], delay_ms: int
) -> None:
    lab = GateLab(delay_ms=delay_ms, lab=LAB)
    for step in steps:
        # A connection that breaks the rules ends, by name; another failure would be ours.
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


LAB = GateLab().lab

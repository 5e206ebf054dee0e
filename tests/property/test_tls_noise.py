"""Arbitrary bytes on a TLS connection end it, or more are awaited."""

import socket

from hypothesis import given
from hypothesis import strategies as st

from headwater.common.exceptions import ConnectionLost
from headwater.common.settings.password import Password
from headwater.common.settings.ssl_settings import ListenerSslSettings, SslSettings
from headwater.network.tls.ssl_context import client_context, listener_context
from headwater.network.tls.tls_channel import SCRATCH_BYTES, TlsTransportLayer
from tests.certificates import Authority

AUTHORITY = Authority()
OWN = AUTHORITY.identity("own", hosts=["localhost"])
LISTENER = listener_context(
    ListenerSslSettings(
        ssl_keystore_key=Password(OWN.key_pem()),
        ssl_keystore_certificate_chain=Password(OWN.certificate_pem),
    )
)
CLIENT = client_context(SslSettings(ssl_truststore_certificates=Password(AUTHORITY.pem)))
SCRATCH = memoryview(bytearray(SCRATCH_BYTES))
ROOM = memoryview(bytearray(4_096))

# Some begin like TLS records: handshake, alert, data.
NOISE = st.one_of(
    st.binary(max_size=300),
    st.builds(
        lambda kind, body: bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body,
        st.sampled_from([20, 21, 22, 23, 24]),
        st.binary(max_size=300),
    ),
)


@given(st.lists(NOISE, min_size=1, max_size=4))
def test_random_bytes_instead_of_a_handshake_are_rejected_or_incomplete(noise: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    channel = TlsTransportLayer(ours, LISTENER, SCRATCH)
    try:
        for piece in noise:
            theirs.sendall(piece)
            assert channel.handshake() is False
    except ConnectionLost:
        pass
    finally:
        channel.close()
        theirs.close()


@given(st.lists(NOISE, min_size=1, max_size=4))
def test_random_bytes_after_a_handshake_end_the_connection_or_are_incomplete(
    noise: list[bytes],
) -> None:
    ours, theirs = socket.socketpair()
    channel = TlsTransportLayer(ours, LISTENER, SCRATCH)
    client = TlsTransportLayer(theirs, CLIENT, SCRATCH, server_name="localhost")
    try:
        while not (client.handshake() & channel.handshake()):
            pass
        client.send([b"before"], more=False)
        assert channel.receive_into(ROOM) == len(b"before")
        for piece in noise:
            theirs.send(piece)
            # Such bytes cannot be forged without the key.
            assert not channel.receive_into(ROOM)
    except ConnectionLost:
        pass
    finally:
        channel.close()
        client.close()


@given(st.lists(st.binary(max_size=40_000), max_size=6), st.integers(1, 5_000))
def test_data_survives_the_connection(pieces: list[bytes], room_bytes: int) -> None:
    ours, theirs = socket.socketpair()
    channel = TlsTransportLayer(ours, LISTENER, SCRATCH)
    client = TlsTransportLayer(theirs, CLIENT, SCRATCH, server_name="localhost")
    expected = b"".join(pieces)
    room = memoryview(bytearray(room_bytes))
    try:
        while not (client.handshake() & channel.handshake()):
            pass
        left = memoryview(expected)
        received = bytearray()
        while len(received) < len(expected):
            if left:
                left = left[channel.send([left[:7], left[7:]], more=False) or 0 :]
            while count := client.receive_into(room):
                received += room[:count]
        assert received == expected
    finally:
        channel.close()
        client.close()

"""SCRAM, both sides: the test vectors of the RFCs, and invalid messages."""

import random
from base64 import b64decode, b64encode

import pytest

from headwater.common.exceptions import InvalidSetting, SaslAuthenticationFailed
from headwater.security.authentication import scram_messages as messages
from headwater.security.authentication.scram import (
    ScramCredential,
    ScramMechanism,
    credential_of,
    read_credential,
    salted_password,
    signature,
)
from headwater.security.authentication.scram_client import ScramClient
from headwater.security.authentication.scram_server import ScramServer
from tests.simulation.fakes.seeded_random import SeededRandom


def rng(seed: int) -> SeededRandom:
    return SeededRandom(random.Random(seed))


SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


class FixedRandom:
    """A random source that always returns the same bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def below(self, limit: int) -> int:
        return 0 % limit

    def bytes(self, count: int) -> bytes:  # noqa: ARG002
        return self._content


def credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    salted = salted_password(mechanism, password, SALT, iterations)
    return credential_of(mechanism, salted, salt=SALT, iterations=iterations)


def server(
    mechanism: ScramMechanism = SHA_256,
    known: dict[str, ScramCredential] | None = None,
    *,
    seed: int = 1,
    secret: bytes = b"secret",
) -> ScramServer:
    return ScramServer(mechanism, (known or {}).get, rng(seed), secret=secret)


def exchange(client: ScramClient, broker: ScramServer) -> None:
    challenge = b""
    while (token := client.respond(challenge)) is not None:
        challenge = broker.respond(token)


def test_client_matches_the_example_of_rfc_7677() -> None:
    rng = FixedRandom(b64decode("rOprNGfwEbeRWgbNEkqO"))
    client = ScramClient(SHA_256, "user", "pencil", rng)
    assert client.respond(b"") == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = client.respond(nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == b"c=biws," + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert client.is_complete


def test_stored_credential_matches_the_example_of_rfc_7677() -> None:
    kept = credential(SHA_256, "pencil")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = messages.read_client_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    challenge = messages.server_first(nonce, kept.salt, kept.iterations)
    signed = messages.auth_message(first, challenge, messages.final_without_proof("n,,", nonce))
    signed_by_server = b64encode(signature(SHA_256, kept.server_key, signed))
    assert signed_by_server == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "ä ö", "=3D,=2C"])
def test_correct_password_authenticates_both_sides(mechanism: ScramMechanism, user: str) -> None:
    client = ScramClient(mechanism, user, "p,w=ß", rng(7))
    broker = server(mechanism, {user: credential(mechanism, "p,w=ß")})
    exchange(client, broker)
    assert client.is_complete
    assert broker.is_complete
    assert broker.user == user


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_wrong_password_is_rejected_without_details(mechanism: ScramMechanism) -> None:
    client = ScramClient(mechanism, "alice", "wrong", rng(7))
    broker = server(mechanism, {"alice": credential(mechanism, "right")})
    with pytest.raises(SaslAuthenticationFailed) as refused:
        exchange(client, broker)
    assert refused.value.client_message is None
    assert broker.user is None
    assert not broker.is_complete


def test_unknown_user_and_wrong_password_get_the_same_responses() -> None:
    """Neither the challenge nor the error reveals which users exist."""
    first = b"n,,n=mallory,r=abc"
    unknown, known = server(), server(known={"mallory": credential(SHA_256, "right")})
    challenges = [messages.read_server_first(each.respond(first)) for each in (unknown, known)]
    assert len({each.iterations for each in challenges}) == 1
    refusals = []
    for broker, challenge in zip((unknown, known), challenges, strict=True):
        unproved = messages.final_without_proof("n,,", challenge.nonce)
        with pytest.raises(SaslAuthenticationFailed) as refused:
            broker.respond(messages.client_final(unproved, bytes(32)))
        refusals.append((str(refused.value), refused.value.client_message))
    assert refusals[0] == refusals[1]


def test_salt_of_an_unknown_user_is_stable_per_broker() -> None:
    def salt(seed: int, secret: bytes, name: bytes) -> bytes:
        said = server(seed=seed, secret=secret).respond(b"n,,n=" + name + b",r=abc")
        return messages.read_server_first(said).salt

    assert salt(1, b"one", b"mallory") == salt(2, b"one", b"mallory")
    assert salt(1, b"one", b"mallory") != salt(1, b"other", b"mallory")
    assert salt(1, b"one", b"mallory") != salt(1, b"one", b"oscar")


def test_proof_for_an_unknown_user_cannot_be_forged() -> None:
    """Their stored key is all zeros, which is not the hash of any known key."""
    broker = server()
    challenge = messages.read_server_first(broker.respond(b"n,,n=mallory,r=abc"))
    unproved = messages.final_without_proof("n,,", challenge.nonce)
    first = messages.read_client_first(b"n,,n=mallory,r=abc")
    proof = signature(SHA_256, bytes(32), messages.auth_message(first, challenge, unproved))
    with pytest.raises(SaslAuthenticationFailed):
        broker.respond(messages.client_final(unproved, proof))


def test_nonce_of_another_exchange_is_rejected() -> None:
    broker = server(known={"alice": credential(SHA_256, "pw")})
    client = ScramClient(SHA_256, "alice", "pw", rng(3))
    first = client.respond(b"")
    assert first is not None
    final = client.respond(broker.respond(first))
    assert final is not None
    other = server(known={"alice": credential(SHA_256, "pw")}, seed=2)
    other.respond(first)
    with pytest.raises(SaslAuthenticationFailed, match="nonce"):
        other.respond(final)


def test_channel_binding_is_rejected() -> None:
    broker = server(known={"alice": credential(SHA_256, "pw")})
    challenge = messages.read_server_first(broker.respond(b"n,,n=alice,r=abc"))
    unproved = messages.final_without_proof("y,,", challenge.nonce)
    with pytest.raises(SaslAuthenticationFailed, match="binding"):
        broker.respond(messages.client_final(unproved, bytes(32)))


def test_client_rejects_a_broker_without_the_credential() -> None:
    client = ScramClient(SHA_256, "alice", "pw", rng(3))
    first = client.respond(b"")
    assert first is not None
    broker = server(known={"alice": credential(SHA_256, "pw")})
    assert client.respond(broker.respond(first)) is not None
    with pytest.raises(SaslAuthenticationFailed, match="signature is wrong"):
        client.respond(messages.server_final(bytes(32)))
    assert not client.is_complete


@pytest.mark.parametrize("iterations", [1, 4095, 999_999_999])
def test_client_rejects_too_few_and_too_many_iterations(iterations: int) -> None:
    client = ScramClient(SHA_256, "alice", "pw", rng(3))
    client.respond(b"")
    nonce = b64encode(rng(3).bytes(24)).decode() + "more"
    with pytest.raises(SaslAuthenticationFailed, match="iterations"):
        client.respond(messages.server_first(nonce, SALT, iterations).text.encode())


@pytest.mark.parametrize("nonce", ["another", b64encode(rng(3).bytes(24)).decode()])
def test_client_rejects_a_nonce_that_does_not_extend_its_own(nonce: str) -> None:
    client = ScramClient(SHA_256, "alice", "pw", rng(3))
    client.respond(b"")
    with pytest.raises(SaslAuthenticationFailed, match="nonce"):
        client.respond(messages.server_first(nonce, SALT, 4096).text.encode())


def test_message_size_is_limited() -> None:
    """Otherwise every unauthenticated client could make the broker parse half a megabyte."""
    most = messages.LONGEST_BYTES
    begin = b"n,,n=alice,r="
    assert server().respond(begin + b"a" * (most - len(begin)))
    with pytest.raises(SaslAuthenticationFailed, match=f"{most + 1} bytes"):
        server().respond(begin + b"a" * (most + 1 - len(begin)))


def test_different_authorization_id_is_rejected() -> None:
    with pytest.raises(SaslAuthenticationFailed) as refused:
        server().respond(b"n,a=bob,n=alice,r=abc")
    assert refused.value.client_message is not None
    assert "authorization id" in refused.value.client_message
    assert server().respond(b"n,a=alice,n=alice,r=abc")


def test_delegation_token_is_rejected_with_a_message() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="delegation token"):
        server().respond(b"n,,n=alice,r=abc,tokenauth=true")


def test_messages_after_the_end_are_rejected() -> None:
    client = ScramClient(SHA_256, "alice", "pw", rng(3))
    broker = server(known={"alice": credential(SHA_256, "pw")})
    exchange(client, broker)
    for side in (client.respond, broker.respond):
        with pytest.raises(SaslAuthenticationFailed, match=r"authentication (completed|ended)"):
            side(b"n,,n=alice,r=abc")


def test_credential_with_too_few_iterations_is_rejected() -> None:
    weak = credential(SHA_256, "pw", iterations=100)
    with pytest.raises(SaslAuthenticationFailed, match="iterations"):
        server(known={"alice": weak}).respond(b"n,,n=alice,r=abc")


def test_credential_round_trips_in_kafka_s_format() -> None:
    kept = credential(SHA_512, "pw")
    text = str(kept)
    assert text.startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=")
    assert text.endswith(",iterations=4096")
    assert read_credential(text) == kept


@pytest.mark.parametrize(
    "text", ["", "salt=a", "salt=!,stored_key=,server_key=,iterations=1", "iterations=4096"]
)
def test_malformed_credential_is_not_repeated_in_the_error(text: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        read_credential(text)
    assert str(refused.value) == "malformed SCRAM credential"


def test_repr_hides_secrets() -> None:
    kept = credential(SHA_256, "pw")
    assert repr(kept) == "ScramCredential(iterations=4096)"

"""SASL with any names, passwords and bytes: invalid input is rejected with a SASL error."""

import random
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.exceptions import InvalidSetting, SaslAuthenticationFailed
from headwater.security.authentication import scram_messages as messages
from headwater.security.authentication.jaas_config import read_jaas
from headwater.security.authentication.plain_mechanism import PlainClient, PlainServer, passwords
from headwater.security.authentication.scram import (
    ScramCredential,
    ScramMechanism,
    credential_of,
    read_credential,
    salted_password,
)
from headwater.security.authentication.scram_client import ScramClient
from headwater.security.authentication.scram_server import ScramServer
from tests.simulation.fakes.seeded_random import SeededRandom


def rng(seed: int) -> SeededRandom:
    return SeededRandom(random.Random(seed))


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
MECHANISMS = st.sampled_from(list(ScramMechanism))
# Input that looks like SCRAM for a while finds more than random bytes.
ALMOST = st.lists(
    st.sampled_from(
        [
            "n,,",
            "y,,",
            "n=a",
            "r=abc",
            ",",
            "=",
            "=2C",
            "a=b",
            "c=biws",
            "p=AA==",
            "s=AA==",
            "i=4096",
        ]
    )
    | st.text(max_size=3),
    max_size=10,
).map(lambda words: "".join(words).encode())
TOKENS = st.binary(max_size=100) | ALMOST


@given(mechanism=MECHANISMS, user=NAMES, password=NAMES, wrong=NAMES, seed=st.integers(0, 99))
@settings(max_examples=40)
def test_only_the_right_password_authenticates_with_scram(
    mechanism: ScramMechanism, user: str, password: str, wrong: str, seed: int
) -> None:
    salt = rng(seed).bytes(20)
    salted = salted_password(mechanism, password, salt, 4096)
    kept = credential_of(mechanism, salted, salt=salt, iterations=4096)
    for tried in (password, wrong):
        client = ScramClient(mechanism, user, tried, rng(seed))
        server = ScramServer(mechanism, {user: kept}.get, rng(seed + 1), secret=b"s")
        with suppress(SaslAuthenticationFailed):
            challenge = b""
            while (token := client.respond(challenge)) is not None:
                challenge = server.respond(token)
        assert server.is_complete == client.is_complete == (tried == password)
        assert server.user == (user if tried == password else None)


@given(user=NAMES, password=NAMES, wrong=NAMES)
def test_only_the_right_password_authenticates_with_plain(
    user: str, password: str, wrong: str
) -> None:
    verify = passwords({user: password})
    for tried in (password, wrong):
        server = PlainServer(verify)
        token = PlainClient(user, tried).respond(b"")
        assert token is not None
        with suppress(SaslAuthenticationFailed):
            server.respond(token)
        assert server.is_complete == (tried == password)


@given(tokens=st.lists(TOKENS, max_size=3), mechanism=MECHANISMS)
def test_arbitrary_tokens_are_rejected_and_never_authenticate(
    tokens: list[bytes], mechanism: ScramMechanism
) -> None:
    kept = ScramCredential(salt=b"s", stored_key=b"k" * 64, server_key=b"k", iterations=4096)
    scram = ScramServer(mechanism, lambda _: kept, rng(1), secret=b"s")
    plain = PlainServer(passwords({"alice": "secret"}))
    for server in (scram, plain):
        for token in tokens:
            with suppress(SaslAuthenticationFailed):
                server.respond(token)
        assert server.user is None


@given(tokens=st.lists(TOKENS, max_size=3), mechanism=MECHANISMS)
def test_arbitrary_challenges_are_rejected(tokens: list[bytes], mechanism: ScramMechanism) -> None:
    client = ScramClient(mechanism, "alice", "secret", rng(1))
    for token in tokens:
        with suppress(SaslAuthenticationFailed):
            client.respond(token)
    assert not client.is_complete


@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_name_survives_its_escaping(name: str) -> None:
    said = messages.client_first(name, "abc")
    read = messages.read_client_first((said.header + said.bare).encode())
    assert read.user == name
    assert read.bare == said.bare


@given(st.text())
def test_arbitrary_text_is_a_credential_or_rejected(text: str) -> None:
    with suppress(InvalidSetting):
        read_credential(text)


@given(st.text(), st.text(max_size=20))
def test_arbitrary_text_is_a_jaas_config_or_rejected(text: str, password: str) -> None:
    with suppress(InvalidSetting):
        read_jaas(text)
    escaped = password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert read_jaas(f'X required password="{escaped}";').password == password

"""Verification of token signatures against published keys, and attempts to forge them."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from headwater.common.exceptions import InvalidSetting, SaslAuthenticationFailed
from headwater.security.authentication.json_web_key_set import JsonWebKeySet, read_key_set
from tests.simulation.fakes.identity_provider import (
    claims,
    ec_key,
    key_set,
    published,
    rsa_key,
    signed,
)

SAID = claims(now_s=1_000_000)
CURVES: dict[str, type[ec.EllipticCurve]] = {
    "ES256": ec.SECP256R1,
    "ES384": ec.SECP384R1,
    "ES512": ec.SECP521R1,
}


def keys(*entries: dict[str, Any]) -> JsonWebKeySet:
    return read_key_set(key_set(*entries))


def one_key() -> JsonWebKeySet:
    return keys(published(rsa_key("k1"), kid="k1"))


def part(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_rsa_key_verifies_all_rsa_algorithms(algorithm: str) -> None:
    assert one_key().verified(signed(SAID, algorithm=algorithm)) == SAID


@pytest.mark.parametrize("algorithm", CURVES)
def test_curve_key_verifies_the_algorithm_of_its_curve_only(algorithm: str) -> None:
    key = ec_key("e1", CURVES[algorithm])
    found = keys(published(key, kid="e1"))
    token = signed(SAID, key, algorithm=algorithm, key_id="e1")
    assert found.verified(token) == SAID
    other = next(each for each in CURVES if each != algorithm)
    forged = signed(SAID, ec_key("e2", CURVES[other]), algorithm=other, key_id="e1")
    with pytest.raises(SaslAuthenticationFailed, match="no key for the token's algorithm"):
        found.verified(forged)


def test_signature_of_another_key_with_a_known_kid_is_rejected() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="signature is invalid"):
        one_key().verified(signed(SAID, rsa_key("evil")))


def test_unknown_kid_is_named_in_the_error() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="unknown key 'k9'"):
        one_key().verified(signed(SAID, key_id="k9"))


def test_unsigned_token_is_rejected() -> None:
    for algorithm in ("none", "None", "nOnE", ""):
        token = f"{part({'alg': algorithm, 'kid': 'k1'})}.{part(SAID)}."
        with pytest.raises(SaslAuthenticationFailed, match="is not supported"):
            one_key().verified(token)


def test_public_key_used_as_a_shared_secret_is_rejected() -> None:
    pem = rsa_key("k1").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{part(SAID)}"
    token = f"{head}.{part(hmac.digest(pem, head.encode(), hashlib.sha256))}"
    with pytest.raises(SaslAuthenticationFailed, match="algorithm 'HS256' is not supported"):
        one_key().verified(token)


def test_token_changed_after_signing_is_rejected() -> None:
    head, _, signature = signed(SAID).split(".")
    with pytest.raises(SaslAuthenticationFailed, match="signature is invalid"):
        one_key().verified(f"{head}.{part({**SAID, 'sub': 'admin'})}.{signature}")
    with pytest.raises(SaslAuthenticationFailed, match="signature is invalid"):
        one_key().verified(f"{head}.{part(SAID)}.")


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("abc", "1 parts"),
        ("a.b.c.d", "4 parts"),
        ("+.b.c", "not valid Base64"),
        (f"{part([])}.b.c", "not a JSON object"),
        (f"{part(b'{')}.b.c", "not JSON"),
        (f"{part(b'[' * 9_000)}.b.c", "not JSON"),
        (f"{part({})}.b.c", "no alg, or"),
        (f"{part({'alg': 7})}.b.c", "no alg, or"),
        (f"{part({'alg': 'RS256', 'kid': 7})}.b.c", "no alg, or"),
        (f"{part({'alg': 'RS256', 'kid': 'k1', 'crit': ['x']})}.b.c", "crit"),
        (f"{part({'alg': 'RS256', 'kid': 'k1'})}.~.c", "signature is invalid"),
    ],
)
def test_malformed_token_is_rejected(token: str, why: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=why):
        one_key().verified(token)


def test_signed_claims_that_are_not_an_object_are_rejected() -> None:
    from jwt import PyJWS

    token = PyJWS().encode(b"[]", rsa_key("k1"), algorithm="RS256", headers={"kid": "k1"})
    with pytest.raises(SaslAuthenticationFailed, match="claims: not a JSON object"):
        one_key().verified(token)


def test_token_without_kid_needs_exactly_one_candidate_key() -> None:
    token = signed(SAID, key_id=None)
    one, other = published(rsa_key("k1"), kid="k1"), published(rsa_key("k2"), kid="k2")
    assert keys(one, published(ec_key("e1"))).verified(token) == SAID
    with pytest.raises(SaslAuthenticationFailed, match="2 keys fit"):
        keys(one, other).verified(token)


def test_key_may_be_restricted_to_one_algorithm() -> None:
    found = keys(published(rsa_key("k1"), kid="k1", alg="RS256"))
    assert found.verified(signed(SAID)) == SAID
    with pytest.raises(SaslAuthenticationFailed, match="no key for the token's algorithm"):
        found.verified(signed(SAID, algorithm="PS256"))


def test_unusable_keys_are_ignored() -> None:
    good = published(rsa_key("k1"), kid="k1")
    found = keys(
        {"kty": "oct", "k": part(b"shared secret"), "kid": "a"},
        {**RSAAlgorithm.to_jwk(rsa_key("k1"), as_dict=True), "kid": "b"},
        {**good, "kid": "c", "use": "enc"},
        {**good, "kid": "d", "alg": "HS256"},
        {**good, "kid": 7},
        {"kty": "RSA", "kid": "e", "n": "AQAB"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": []},
        published(small_key(), kid="f"),
        good,
    )
    assert [each.key_id for each in found.keys] == ["k1"]


def small_key() -> rsa.RSAPrivateKey:
    return rsa_key("small", 1_024)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"<html>", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", 'no list "keys"'),
        (b'{"keys": 7}', 'no list "keys"'),
        (b'{"keys": []}', "no usable public key"),
        (b'{"keys": [7, {"kty": "oct", "k": "AAAA"}]}', "no usable public key"),
    ],
)
def test_document_without_keys_is_rejected(document: bytes, why: str) -> None:
    with pytest.raises(InvalidSetting, match=why):
        read_key_set(document)

"""Validation of token claims."""

import json

import pytest

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.security.authentication.oauth_bearer import OAuthBearerToken
from headwater.security.authentication.oauth_token_validator import OAuthTokenValidator

NOW_S = 1_000_000
RULES = OAuthTokenValidator(audiences=("headwater", "tea"), issuer="https://login", skew_ms=30_000)
GOOD: dict[str, object] = {
    "sub": "alice",
    "iss": "https://login",
    "aud": "headwater",
    "iat": NOW_S,
    "exp": NOW_S + 60,
}


def validated(rules: OAuthTokenValidator = RULES, **changed: object) -> OAuthBearerToken:
    claims = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    return rules.validate(claims, NOW_S * 1_000)


def test_valid_claims_give_the_user_and_the_expiry() -> None:
    assert validated() == OAuthBearerToken(user="alice", expires_ms=(NOW_S + 60) * 1_000)
    assert validated(aud=["other", "tea"], scope="read write", exp=NOW_S + 0.5) == OAuthBearerToken(
        user="alice", expires_ms=NOW_S * 1_000 + 500, scopes=("read", "write")
    )


@pytest.mark.parametrize("name", [" alice", "alice ", " alice  "])
def test_subject_is_not_trimmed(name: str) -> None:
    """A provider may have users whose names differ in spaces only; they stay two principals."""
    assert validated(sub=name).user == name


def test_claim_names_are_configurable() -> None:
    rules = OAuthTokenValidator(sub_claim="client_id", scope_claim="scp")
    found = validated(rules, client_id="till", scp=["a", "b"])
    assert (found.user, found.scopes) == ("till", ("a", "b"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"exp": NOW_S - 30}, "expired 30 s ago"),
        ({"exp": None}, "no numeric claim exp"),
        ({"exp": "tomorrow"}, "no numeric claim exp"),
        ({"exp": True}, "no numeric claim exp"),
        ({"exp": float("nan")}, "exp is not a valid time"),
        ({"exp": float("inf")}, "exp is not a valid time"),
        ({"exp": 10**400}, "exp is not a valid time"),
        ({"iat": None}, "no numeric claim iat"),
        ({"nbf": NOW_S + 31}, "not valid for another 31 s"),
        ({"nbf": "x"}, "no numeric claim nbf"),
        ({"aud": "others"}, "audience 'others'"),
        ({"aud": ["a", "b"]}, "audience 'a, b'"),
        ({"aud": None}, "audience ''"),
        ({"aud": 7}, "aud is not a string"),
        ({"iss": "https://evil"}, "issuer is 'https://evil'"),
        ({"iss": None}, "issuer is 'None'"),
        ({"sub": None}, "has no claim sub"),
        ({"sub": ""}, "has no claim sub"),
        ({"sub": " "}, "has no claim sub"),
        ({"sub": 7}, "has no claim sub"),
        ({"sub": "a\nERROR b"}, "unprintable characters"),
        ({"scope": 7}, "scope is not a string"),
        ({"scope": [7]}, "scope is not a string"),
    ],
)
def test_invalid_claims_are_rejected(changed: dict[str, object], why: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=why):
        validated(RULES, **changed)


def test_clock_skew_is_allowed_and_the_session_still_expires() -> None:
    assert validated(nbf=NOW_S + 30).user == "alice"
    # An expiry in the past would be sent as a session without an end.
    assert validated(exp=NOW_S - 29).expires_ms == (NOW_S + 1) * 1_000


def test_audience_and_issuer_are_not_checked_unless_configured() -> None:
    assert validated(OAuthTokenValidator(), aud=None, iss=None).user == "alice"


def test_nan_and_infinity_are_rejected() -> None:
    claims = json.loads('{"exp": NaN, "iat": 1, "sub": "a"}')
    with pytest.raises(SaslAuthenticationFailed, match="not a valid time"):
        OAuthTokenValidator().validate(claims, 0)

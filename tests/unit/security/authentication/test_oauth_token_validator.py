"""What claims must say before somebody is believed."""

import json

import pytest

from headwater.common.exceptions import SaslRefused
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


def judged(rules: OAuthTokenValidator = RULES, **changed: object) -> OAuthBearerToken:
    claims = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    return rules.judge(claims, NOW_S * 1_000)


def test_good_claims_say_who_somebody_is_and_until_when() -> None:
    assert judged() == OAuthBearerToken(user="alice", expires_ms=(NOW_S + 60) * 1_000)
    assert judged(aud=["other", "tea"], scope="read write", exp=NOW_S + 0.5) == OAuthBearerToken(
        user="alice", expires_ms=NOW_S * 1_000 + 500, scopes=("read", "write")
    )


@pytest.mark.parametrize("name", [" alice", "alice ", " alice  "])
def test_a_subject_is_taken_as_it_is(name: str) -> None:
    """A provider may have both users; what one of them may do is not for the other."""
    assert judged(sub=name).user == name


def test_claims_may_have_other_names() -> None:
    rules = OAuthTokenValidator(sub_claim="client_id", scope_claim="scp")
    found = judged(rules, client_id="till", scp=["a", "b"])
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
def test_claims_that_are_not_good_enough_are_refused(changed: dict[str, object], why: str) -> None:
    with pytest.raises(SaslRefused, match=why):
        judged(RULES, **changed)


def test_clocks_may_differ_a_little_and_such_a_login_still_ends() -> None:
    assert judged(nbf=NOW_S + 30).user == "alice"
    # An end in the past would tell the client that its login holds for ever.
    assert judged(exp=NOW_S - 29).expires_ms == (NOW_S + 1) * 1_000


def test_who_has_no_rules_of_audience_and_issuer_takes_any() -> None:
    assert judged(OAuthTokenValidator(), aud=None, iss=None).user == "alice"


def test_a_number_in_json_that_is_none_is_refused() -> None:
    claims = json.loads('{"exp": NaN, "iat": 1, "sub": "a"}')
    with pytest.raises(SaslRefused, match="not a valid time"):
        OAuthTokenValidator().judge(claims, 0)

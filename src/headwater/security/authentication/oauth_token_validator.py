"""What the claims of a token must say. Its signature has been found right before.

Pure: the time is given. What a reader would get wrong: times in claims are seconds and may have a
fraction, and a token may be a little too old or too new, since clocks differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import SaslRefused
from headwater.security.authentication.oauth_bearer import OAuthBearerToken
from headwater.security.authentication.sasl_text import shown

# Later than anybody can mean, and small enough for every field it gets into.
_LATEST_S: Final = 2**42


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthTokenValidator:
    """What a listener asks of tokens."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_ms: int = 30_000
    sub_claim: str = "sub"
    scope_claim: str = "scope"

    def judge(self, claims: Mapping[str, object], now_ms: int) -> OAuthBearerToken:
        """Who somebody is, or `SaslRefused`. Like Kafka, it wants to know when it was issued."""
        expires_ms = _time_ms(claims, "exp")
        if now_ms >= expires_ms + self.skew_ms:
            raise SaslRefused(f"a token that ran out {_seconds(now_ms - expires_ms)} s ago")
        _time_ms(claims, "iat")
        if "nbf" in claims:
            begins_ms = _time_ms(claims, "nbf")
            if now_ms < begins_ms - self.skew_ms:
                raise SaslRefused(f"a token that holds only in {_seconds(begins_ms - now_ms)} s")
        self._check_issuer(claims)
        self._check_audience(claims)
        return OAuthBearerToken(
            user=self._user(claims),
            # One that has run out by our clock is good for as long as clocks may differ.
            expires_ms=expires_ms if expires_ms > now_ms else expires_ms + self.skew_ms,
            scopes=_texts(claims, self.scope_claim, parted=True),
        )

    def _check_issuer(self, claims: Mapping[str, object]) -> None:
        issuer = claims.get("iss")
        if self.issuer is not None and issuer != self.issuer:
            raise SaslRefused(f"a token that {shown(str(issuer))} gave out")

    def _check_audience(self, claims: Mapping[str, object]) -> None:
        if not self.audiences:
            return
        found = _texts(claims, "aud", parted=False)
        if not any(each in self.audiences for each in found):
            raise SaslRefused(f"a token for {shown(', '.join(found) or 'nobody')}")

    def _user(self, claims: Mapping[str, object]) -> str:
        name = claims.get(self.sub_claim)
        if not isinstance(name, str) or not name.strip():
            raise SaslRefused(f"a token that does not say who it is about ({self.sub_claim})")
        if not name.isprintable():
            raise SaslRefused(f"a token about {shown(name)}, which is no name")
        # As it is, unlike Kafka, which trims it: two users of a provider are two principals here.
        return name


def _time_ms(claims: Mapping[str, object], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SaslRefused(f"a token without a time {name}")
    # Also refuses what is no number at all (NaN), which compares with nothing.
    if not 0 <= value <= _LATEST_S:
        raise SaslRefused(f"a token whose {name} is no time")
    return int(value * 1_000)


def _texts(claims: Mapping[str, object], name: str, *, parted: bool) -> tuple[str, ...]:
    """A claim that is a text or a list of texts; scopes may stand in one text, parted by blanks."""
    value = claims.get(name, [])
    if isinstance(value, str):
        return tuple(value.split()) if parted else (value,)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SaslRefused(f"a token whose {name} is no text")
    return tuple(value)


def _seconds(milliseconds: int) -> int:
    return milliseconds // 1_000

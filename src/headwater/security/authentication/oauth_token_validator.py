"""Validate the claims of an OAuth token whose signature has been verified.

Pure: the current time is a parameter.

Note: times in claims are in seconds and may have fractions. `skew_ms` allows for clock differences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.security.authentication.oauth_bearer import OAuthBearerToken
from headwater.security.authentication.sasl_text import printable

# Far in the future, and in milliseconds still within an int64.
_LATEST_S: Final = 2**42


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthTokenValidator:
    """A listener's requirements for tokens."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_ms: int = 30_000
    sub_claim: str = "sub"
    scope_claim: str = "scope"

    def validate(self, claims: Mapping[str, object], now_ms: int) -> OAuthBearerToken:
        """Validate the claims or raise `SaslAuthenticationFailed`.

        Like Kafka, requires an `iat` claim.
        """
        expires_ms = _time_ms(claims, "exp")
        if now_ms >= expires_ms + self.skew_ms:
            raise SaslAuthenticationFailed(f"token expired {_seconds(now_ms - expires_ms)} s ago")
        _time_ms(claims, "iat")
        if "nbf" in claims:
            not_before_ms = _time_ms(claims, "nbf")
            if now_ms < not_before_ms - self.skew_ms:
                raise SaslAuthenticationFailed(
                    f"token is not valid for another {_seconds(not_before_ms - now_ms)} s (nbf)"
                )
        self._check_issuer(claims)
        self._check_audience(claims)
        return OAuthBearerToken(
            user=self._user(claims),
            # A token that has expired by this clock stays valid for the allowed skew.
            expires_ms=expires_ms if expires_ms > now_ms else expires_ms + self.skew_ms,
            scopes=_strings(claims, self.scope_claim, is_space_separated=True),
        )

    def _check_issuer(self, claims: Mapping[str, object]) -> None:
        issuer = claims.get("iss")
        if self.issuer is not None and issuer != self.issuer:
            raise SaslAuthenticationFailed(
                f"token issuer is {printable(str(issuer))}, expected {self.issuer}"
            )

    def _check_audience(self, claims: Mapping[str, object]) -> None:
        if not self.audiences:
            return
        found = _strings(claims, "aud", is_space_separated=False)
        if not any(each in self.audiences for each in found):
            raise SaslAuthenticationFailed(
                f"token audience {printable(', '.join(found))} is not expected"
            )

    def _user(self, claims: Mapping[str, object]) -> str:
        name = claims.get(self.sub_claim)
        if not isinstance(name, str) or not name.strip():
            raise SaslAuthenticationFailed(f"token has no claim {self.sub_claim}, or it is empty")
        if not name.isprintable():
            raise SaslAuthenticationFailed(
                f"token claim {self.sub_claim} has unprintable characters: {printable(name)}"
            )
        # Not trimmed, unlike Kafka: two users of a provider stay two principals.
        return name


def _time_ms(claims: Mapping[str, object], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SaslAuthenticationFailed(f"token has no numeric claim {name}")
    # Also rejects NaN, for which every comparison is false.
    if not 0 <= value <= _LATEST_S:
        raise SaslAuthenticationFailed(f"token claim {name} is not a valid time")
    return int(value * 1_000)


def _strings(
    claims: Mapping[str, object], name: str, *, is_space_separated: bool
) -> tuple[str, ...]:
    """A claim of one string or a list; scopes may be one space-separated string."""
    value = claims.get(name, [])
    if isinstance(value, str):
        return tuple(value.split()) if is_space_separated else (value,)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SaslAuthenticationFailed(f"token claim {name} is not a string or a list of strings")
    return tuple(value)


def _seconds(milliseconds: int) -> int:
    return milliseconds // 1_000

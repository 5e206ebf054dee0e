"""Verify JSON Web Tokens with an issuer's published keys (JWKS, RFC 7517).

Note: a token names its own algorithm and may lie. Each key has the algorithms that fit its key
type, and is used with no other. Symmetric algorithms (HS256 and the like) are not accepted: a
published key cannot be a secret.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.common.exceptions import InvalidSetting, SaslAuthenticationFailed
from headwater.security.authentication.sasl_text import printable

MISSING: Final = "OAUTHBEARER needs the package PyJWT: pip install 'headwater[oauth]'"

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
ALGORITHMS: Final = (*_RSA, *(each for names in _CURVES.values() for each in names))
_RSA_BITS_MIN: Final = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonWebKey:
    """A public key with the algorithms that it may be used with."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenHeader:
    """A token's header, before its signature is verified."""

    algorithm: str
    key_id: str | None


@dataclass(frozen=True, slots=True)
class JsonWebKeySet:
    """All usable keys of an issuer."""

    keys: tuple[JsonWebKey, ...]

    def has(self, key_id: str | None) -> bool:
        return key_id is None or any(each.key_id == key_id for each in self.keys)

    def verified(self, token: str) -> Mapping[str, object]:
        """Return a token's claims if one of the keys signed it.

        Raises `SaslAuthenticationFailed`.
        """
        from jwt import PyJWS
        from jwt.exceptions import PyJWTError

        header = token_header(token)
        key = self._key_for(header)
        try:
            # `_key_for` has checked that the key allows the token's algorithm.
            decoded = PyJWS().decode_complete(token, key.key, algorithms=[header.algorithm])
        except PyJWTError as error:
            raise SaslAuthenticationFailed(
                f"token signature is invalid ({type(error).__name__})"
            ) from None
        return _json_object(decoded["payload"], "claims")

    def _key_for(self, header: TokenHeader) -> JsonWebKey:
        if header.algorithm not in ALGORITHMS:
            raise SaslAuthenticationFailed(
                f"token algorithm {printable(header.algorithm)} is not supported"
            )
        if not self.has(header.key_id):
            raise SaslAuthenticationFailed(
                f"token is signed with unknown key {printable(str(header.key_id))}"
            )
        candidates = [
            each
            for each in self.keys
            if header.algorithm in each.algorithms and header.key_id in (None, each.key_id)
        ]
        if not candidates:
            raise SaslAuthenticationFailed(f"no key for the token's algorithm {header.algorithm}")
        if header.key_id is None and len(candidates) > 1:
            raise SaslAuthenticationFailed(
                f"token has no kid, and {len(candidates)} keys fit its algorithm"
            )
        return candidates[0]


def token_header(token: str) -> TokenHeader:
    """Parse a token's header, or raise `SaslAuthenticationFailed`."""
    parts = token.split(".")
    if len(parts) != 3:
        raise SaslAuthenticationFailed(f"token has {len(parts)} parts, expected 3")
    try:
        raw = base64.b64decode(parts[0] + "=" * (-len(parts[0]) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise SaslAuthenticationFailed("token header is not valid Base64") from None
    header = _json_object(raw, "header")
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
        raise SaslAuthenticationFailed("token header has no alg, or its alg or kid is not a string")
    if "crit" in header:
        # Critical extensions must be understood (RFC 7515); none is supported here.
        raise SaslAuthenticationFailed(
            "token header has critical extensions (crit), which are not supported"
        )
    return TokenHeader(algorithm, key_id)


def read_key_set(document: bytes) -> JsonWebKeySet:
    """Parse the usable keys of a JWKS, or raise `InvalidSetting` if there is none."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        raise InvalidSetting("invalid JWKS: not JSON") from None
    entries = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(entries, list):
        raise InvalidSetting('invalid JWKS: no list "keys"')
    usable = (_published(each) for each in entries if isinstance(each, dict))
    keys = tuple(each for each in usable if each is not None)
    if not keys:
        raise InvalidSetting("the JWKS has no usable public key (RSA or elliptic curve)")
    return JsonWebKeySet(keys)


def check_package() -> None:
    """Raise `InvalidSetting` if PyJWT is not installed."""
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError:
        raise InvalidSetting(MISSING) from None


def _published(entry: dict[str, Any]) -> JsonWebKey | None:
    """Parse one key; None if it is unusable here, which is not an error."""
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm
    from jwt.exceptions import PyJWTError

    key_id = entry.get("kid")
    # A published private key ("d") is known to everyone and proves nothing.
    if entry.get("use", "sig") != "sig" or "d" in entry or not isinstance(key_id, str | None):
        return None
    try:
        key: Any
        algorithms: tuple[str, ...]
        if entry.get("kty") == "RSA":
            key, algorithms = RSAAlgorithm.from_jwk(entry), _RSA
            if key.key_size < _RSA_BITS_MIN:
                return None
        elif entry.get("kty") == "EC" and entry.get("crv") in _CURVES:
            key, algorithms = ECAlgorithm.from_jwk(entry), _CURVES[entry["crv"]]
        else:
            return None
    except (PyJWTError, ValueError, TypeError, AttributeError, KeyError):
        return None
    if "alg" in entry:
        algorithms = tuple(each for each in algorithms if each == entry["alg"])
    return JsonWebKey(key_id=key_id, algorithms=algorithms, key=key) if algorithms else None


def _json_object(raw: bytes, what: str) -> Mapping[str, object]:
    try:
        decoded = json.loads(raw)
    except (ValueError, RecursionError):
        raise SaslAuthenticationFailed(f"token {what}: not JSON") from None
    if not isinstance(decoded, dict):
        raise SaslAuthenticationFailed(f"token {what}: not a JSON object")
    return decoded

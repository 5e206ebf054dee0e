"""The keys that an issuer publishes (JWKS, RFC 7517), and whether one of them signed a token.

What a reader would get wrong: a token names its algorithm itself, and may lie. Each key here knows
which algorithms it can be meant for, from its own type, and no other is tried with it. Keys that
both sides must know (HS256 and its like) are not taken: what is published cannot be a secret.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.common.exceptions import InvalidSetting, SaslRefused
from headwater.security.authentication.sasl_text import shown

MISSING: Final = "OAUTHBEARER needs the package PyJWT: pip install 'headwater[oauth]'"

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
ALGORITHMS: Final = (*_RSA, *(each for names in _CURVES.values() for each in names))
_RSA_BITS_MIN: Final = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonWebKey:
    """A key with all algorithms that it may be used with."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenHeader:
    """What a token says of its signature, which nobody has looked at yet."""

    algorithm: str
    key_id: str | None


@dataclass(frozen=True, slots=True)
class JsonWebKeySet:
    """All keys of an issuer that can be used."""

    keys: tuple[JsonWebKey, ...]

    def has(self, key_id: str | None) -> bool:
        return key_id is None or any(each.key_id == key_id for each in self.keys)

    def verified(self, token: str) -> Mapping[str, object]:
        """The claims of a token that one of the keys has signed, or `SaslRefused`."""
        from jwt import PyJWS
        from jwt.exceptions import PyJWTError

        header = token_header(token)
        key = self._key_for(header)
        try:
            # The key's algorithm, which is the token's as well, or it would not be this key.
            found = PyJWS().decode_complete(token, key.key, algorithms=[header.algorithm])
        except PyJWTError as error:
            raise SaslRefused(f"a token with a wrong signature ({type(error).__name__})") from None
        return _json_object(found["payload"], "claims")

    def _key_for(self, header: TokenHeader) -> JsonWebKey:
        if header.algorithm not in ALGORITHMS:
            raise SaslRefused(f"a token signed with {shown(header.algorithm)}")
        if not self.has(header.key_id):
            raise SaslRefused(f"a token signed with key {shown(str(header.key_id))}, unknown here")
        suited = [
            each
            for each in self.keys
            if header.algorithm in each.algorithms and header.key_id in (None, each.key_id)
        ]
        if not suited:
            raise SaslRefused(f"a token signed with {header.algorithm}, and no key is for that")
        if header.key_id is None and len(suited) > 1:
            raise SaslRefused(f"a token that does not say which of {len(suited)} keys signed it")
        return suited[0]


def token_header(token: str) -> TokenHeader:
    """The first of the three parts of a token, or `SaslRefused`."""
    parts = token.split(".")
    if len(parts) != 3:
        raise SaslRefused(f"a token of {len(parts)} parts, and not 3")
    try:
        raw = base64.b64decode(parts[0] + "=" * (-len(parts[0]) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise SaslRefused("a token whose header is not base64") from None
    header = _json_object(raw, "header")
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
        raise SaslRefused("a token whose header names no algorithm, or no key that could be one")
    if "crit" in header:
        # Somebody wants more to be understood than is understood here.
        raise SaslRefused("a token whose header has a crit")
    return TokenHeader(algorithm, key_id)


def read_key_set(document: bytes) -> JsonWebKeySet:
    """The keys of a JWKS that can be used, or `InvalidSetting` if there is none."""
    try:
        read = json.loads(document)
    except (ValueError, RecursionError):
        raise InvalidSetting("the keys cannot be read: this is no JSON") from None
    entries = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(entries, list):
        raise InvalidSetting('the keys cannot be read: there is no list "keys"')
    found = (_published(each) for each in entries if isinstance(each, dict))
    keys = tuple(each for each in found if each is not None)
    if not keys:
        raise InvalidSetting("there is no public key of RSA or of an elliptic curve")
    return JsonWebKeySet(keys)


def check_package() -> None:
    """`InvalidSetting` where tokens cannot be checked."""
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError:
        raise InvalidSetting(MISSING) from None


def _published(entry: dict[str, Any]) -> JsonWebKey | None:
    """None for what cannot be used: others may use it, so it is no mistake."""
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm
    from jwt.exceptions import PyJWTError

    key_id = entry.get("kid")
    # A private key that was published is everybody's, and proves nothing.
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
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise SaslRefused(f"a token whose {what} is no JSON") from None
    if not isinstance(found, dict):
        raise SaslRefused(f"a token whose {what} is no object")
    return found

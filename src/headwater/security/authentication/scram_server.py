"""Broker's side of SCRAM.

Note: an unknown user gets a challenge too, with a salt that is stable for that name, and fails only
after the proof, with the same error. Kafka fails at once and so reveals which users exist.
"""

from base64 import b64encode
from collections.abc import Callable
from hmac import compare_digest, digest
from typing import Final

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.common.ports import Random
from headwater.security.authentication import scram_messages as messages
from headwater.security.authentication.sasl_text import printable
from headwater.security.authentication.scram import (
    DEFAULT_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramCredential,
    ScramMechanism,
    combined,
    signature,
    stored_key,
)

_NONCE_BYTES: Final = 24
_OTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)

Credentials = Callable[[str], ScramCredential | None]
"""Look up the stored credential of a user for one mechanism."""


class ScramServer:
    """`SaslServer` of SCRAM."""

    def __init__(
        self, mechanism: ScramMechanism, credentials: Credentials, rng: Random, *, secret: bytes
    ) -> None:
        """`secret` derives salts of unknown users; only the broker may know it."""
        self._mechanism = mechanism
        self._credentials = credentials
        self._rng = rng
        self._secret = secret
        self._first: messages.ClientFirst | None = None
        self._challenge: messages.ServerFirst | None = None
        self._credential: ScramCredential | None = None
        self._has_ended = False
        self.user: str | None = None
        self.expires_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.user is not None

    def respond(self, token: bytes) -> bytes:
        if self._has_ended:
            raise SaslAuthenticationFailed("unexpected token after SCRAM authentication ended")
        if self._first is None:
            return self._begin(messages.read_client_first(token))
        self._has_ended = True
        assert self._challenge is not None
        return self._conclude(self._first, self._challenge, messages.read_client_final(token))

    def _begin(self, first: messages.ClientFirst) -> bytes:
        if first.authorization_id not in ("", first.user):
            raise SaslAuthenticationFailed(
                f"user {printable(first.user)} requested a different authorization id",
                client_message=_OTHER_ID,
            )
        if ",tokenauth=true" in first.extensions:
            raise SaslAuthenticationFailed(
                "delegation tokens are not supported",
                client_message="Authentication failed: delegation tokens are not supported",
            )
        credential = self._credentials(first.user)
        if credential is not None and credential.iterations < MIN_ITERATIONS:
            raise SaslAuthenticationFailed(
                f"credential of user {printable(first.user)} has fewer than {MIN_ITERATIONS} "
                "iterations"
            )
        self._credential = credential
        self._first = first
        nonce = first.nonce + b64encode(self._rng.bytes(_NONCE_BYTES)).decode("ascii")
        if credential is None:
            salt = self._salt_of_unknown(first.user)
            self._challenge = messages.server_first(nonce, salt, DEFAULT_ITERATIONS)
        else:
            self._challenge = messages.server_first(nonce, credential.salt, credential.iterations)
        return self._challenge.text.encode()

    def _conclude(
        self,
        first: messages.ClientFirst,
        challenge: messages.ServerFirst,
        final: messages.ClientFinal,
    ) -> bytes:
        if final.binding != first.header.encode():
            raise SaslAuthenticationFailed(
                "the client requested channel binding, which is not supported"
            )
        if final.nonce != challenge.nonce:
            raise SaslAuthenticationFailed("the nonce does not match the challenge")
        size_bytes = self._mechanism.hash_bytes
        if len(final.proof) != size_bytes:
            raise SaslAuthenticationFailed(
                f"the proof has {len(final.proof)} bytes, expected {size_bytes}"
            )
        credential = self._credential
        # Do the same work for unknown users, so that timing does not reveal which users exist.
        expected = bytes(size_bytes) if credential is None else credential.stored_key
        signed = messages.auth_message(first, challenge, final.without_proof)
        key = combined(final.proof, signature(self._mechanism, expected, signed))
        is_proved = compare_digest(stored_key(self._mechanism, key), expected)
        if credential is None or not is_proved:
            raise SaslAuthenticationFailed(
                f"user {printable(first.user)} does not exist or the password is wrong"
            )
        self.user = first.user
        return messages.server_final(signature(self._mechanism, credential.server_key, signed))

    def _salt_of_unknown(self, user: str) -> bytes:
        return digest(self._secret, user.encode("utf-8"), self._mechanism.hash_name)[:SALT_BYTES]

"""Client's side of SCRAM.

Note: the exchange is complete only after the broker has proved, with its signature, that it knows
the user's credential. Otherwise any server could pose as the broker.
"""

from base64 import b64encode
from hmac import compare_digest
from typing import Final

from headwater.common.exceptions import SaslAuthenticationFailed
from headwater.common.ports import Random
from headwater.security.authentication import scram_messages as messages
from headwater.security.authentication.scram import (
    MIN_ITERATIONS,
    ScramMechanism,
    client_key,
    combined,
    salted_password,
    server_key,
    signature,
    stored_key,
)

_NONCE_BYTES: Final = 24
_ITERATIONS_BOUND: Final = 1_000_000
"""About a second of work. A server that asks for more would only keep the client busy."""


class ScramClient:
    """`SaslClient` of SCRAM."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, rng: Random) -> None:
        self._mechanism = mechanism
        self._user = user
        self._password = password
        self._rng = rng
        self._first: messages.ClientFirst | None = None
        self._expected: bytes | None = None
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        if self._first is None:
            nonce = b64encode(self._rng.bytes(_NONCE_BYTES)).decode("ascii")
            self._first = messages.client_first(self._user, nonce)
            return (self._first.header + self._first.bare).encode()
        if self._expected is None:
            return self._prove(self._first, messages.read_server_first(challenge))
        if self.is_complete:
            raise SaslAuthenticationFailed(
                "the broker continued after SCRAM authentication completed"
            )
        if not compare_digest(messages.read_server_final(challenge), self._expected):
            raise SaslAuthenticationFailed(
                "the broker's signature is wrong: it does not know this user's credential"
            )
        self.is_complete = True
        return None

    def _prove(self, first: messages.ClientFirst, challenge: messages.ServerFirst) -> bytes:
        if not challenge.nonce.startswith(first.nonce) or challenge.nonce == first.nonce:
            raise SaslAuthenticationFailed("the broker's nonce does not extend the client's")
        if not MIN_ITERATIONS <= challenge.iterations <= _ITERATIONS_BOUND:
            raise SaslAuthenticationFailed(
                f"the broker asks for {challenge.iterations} iterations,"
                f" must be {MIN_ITERATIONS} to {_ITERATIONS_BOUND}"
            )
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, challenge.salt, challenge.iterations)
        unproved = messages.final_without_proof(first.header, challenge.nonce)
        signed = messages.auth_message(first, challenge, unproved)
        key = client_key(mechanism, salted)
        proof = combined(key, signature(mechanism, stored_key(mechanism, key), signed))
        self._expected = signature(mechanism, server_key(mechanism, salted), signed)
        return messages.client_final(unproved, proof)

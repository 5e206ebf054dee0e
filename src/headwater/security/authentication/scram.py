"""SCRAM keys and credentials (RFC 5802, RFC 7677).

    salted password   PBKDF2 of the password                 computed by the client at each login
    client key        HMAC(salted password, "Client Key")    the client proves that it knows it
    stored key        hash of the client key                 stored by the broker
    server key        HMAC(salted password, "Server Key")    the broker proves that it knows it

Note: passwords are not normalized with SASLprep. Neither Kafka nor librdkafka does, so normalizing
here would reject some of their users.
"""

import binascii
import hashlib
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from enum import IntEnum
from hmac import digest
from typing import Final

from headwater.common.exceptions import InvalidSetting

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""Limits for new credentials; Kafka's, for both mechanisms."""

DEFAULT_ITERATIONS: Final = 4_096
SALT_BYTES: Final = 20


class ScramMechanism(IntEnum):
    """SCRAM mechanisms under the numbers that Kafka's requests use."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """SASL name."""
        return _NAMES[self]

    @property
    def hash_name(self) -> str:
        """Name in `hashlib`."""
        return _HASHES[self]

    @property
    def hash_bytes(self) -> int:
        return hashlib.new(self.hash_name).digest_size


_NAMES: Final = {
    ScramMechanism.SCRAM_SHA_256: "SCRAM-SHA-256",
    ScramMechanism.SCRAM_SHA_512: "SCRAM-SHA-512",
}
_HASHES: Final = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}
BY_NAME: Final = {name: mechanism for mechanism, name in _NAMES.items()}

_CREDENTIAL: Final = re.compile(
    r"salt=(?P<salt>[^,]*),stored_key=(?P<stored>[^,]*),"
    r"server_key=(?P<server>[^,]*),iterations=(?P<iterations>[0-9]{1,9})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a broker stores for one user and mechanism.

    A thief can impersonate the broker to that user, but not the user.
    """

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def __str__(self) -> str:
        """The form in which Kafka stores it in the user's config."""
        salt, stored, server = (
            b64encode(each).decode("ascii")
            for each in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"


def read_credential(text: str) -> ScramCredential:
    """Parse a stored credential; `InvalidSetting` does not repeat its contents."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise InvalidSetting("malformed SCRAM credential")
    try:
        return ScramCredential(
            salt=b64decode(found["salt"], validate=True),
            stored_key=b64decode(found["stored"], validate=True),
            server_key=b64decode(found["server"], validate=True),
            iterations=int(found["iterations"]),
        )
    except (binascii.Error, ValueError):
        raise InvalidSetting("malformed SCRAM credential") from None


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Derive the salted password. Slow on purpose: some milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode("utf-8"), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, *, salt: bytes, iterations: int
) -> ScramCredential:
    """Build the credential to store for a salted password."""
    return ScramCredential(
        salt=salt,
        stored_key=stored_key(mechanism, client_key(mechanism, salted)),
        server_key=server_key(mechanism, salted),
        iterations=iterations,
    )


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return digest(salted, b"Client Key", mechanism.hash_name)


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return digest(salted, b"Server Key", mechanism.hash_name)


def stored_key(mechanism: ScramMechanism, client: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, client).digest()


def signature(mechanism: ScramMechanism, key: bytes, auth_message: bytes) -> bytes:
    return digest(key, auth_message, mechanism.hash_name)


def combined(left: bytes, right: bytes) -> bytes:
    """XOR: key and signature give a proof, proof and signature give the key."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))

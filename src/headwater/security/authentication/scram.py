"""What a SCRAM password becomes (RFC 5802, RFC 7677), and how a credential is kept.

    salted password   PBKDF2 of the password                      known while somebody types it
    client key        HMAC(salted password, "Client Key")         the client proves that it has it
    stored key        hash of the client key                      the broker keeps it
    server key        HMAC(salted password, "Server Key")         the broker proves that it has it

What a reader would get wrong: passwords are not normalized by SASLprep. Neither Kafka nor
librdkafka does it, and whoever did would refuse their users.
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
"""What may be asked for when a credential is made; Kafka's limits for both mechanisms."""

DEFAULT_ITERATIONS: Final = 4_096
SALT_BYTES: Final = 20


class ScramMechanism(IntEnum):
    """Under the numbers that Kafka's requests have for them."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """As SASL calls it."""
        return _NAMES[self]

    @property
    def hash_name(self) -> str:
        """As `hashlib` calls it."""
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
    """What a broker keeps of a password. Whoever has it can play the broker, but not the user."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def __str__(self) -> str:
        """As Kafka writes it into the configs of a user."""
        salt, stored, server = (
            b64encode(each).decode("ascii")
            for each in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"


def read_credential(text: str) -> ScramCredential:
    """A credential as it is kept; `InvalidSetting` without a word of what it says."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise InvalidSetting("a SCRAM credential that cannot be read")
    try:
        return ScramCredential(
            salt=b64decode(found["salt"], validate=True),
            stored_key=b64decode(found["stored"], validate=True),
            server_key=b64decode(found["server"], validate=True),
            iterations=int(found["iterations"]),
        )
    except (binascii.Error, ValueError):
        raise InvalidSetting("a SCRAM credential that cannot be read") from None


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Slow on purpose: some milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode("utf-8"), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, *, salt: bytes, iterations: int
) -> ScramCredential:
    """What is kept of a salted password."""
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
    """Exclusive or, which makes a proof of a key and a signature, and a key of the proof."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))

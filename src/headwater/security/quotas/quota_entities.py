"""Whose quota it is, and which quotas there are.

An entity names a user, a client id, both, or an address. What a reader would get wrong: a part that
is `DEFAULT` is not a part that is missing. It stands for everybody who has no quota of his own, and
each of them has all of it for himself.
"""

from enum import StrEnum
from typing import Final, NamedTuple

DEFAULT: Final = ""
"""Nobody is called so: the protocol refuses empty names."""


class EntityType(StrEnum):
    """The parts of an entity, in the words of the protocol."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class QuotaEntity(NamedTuple):
    """A part is a name, or `DEFAULT`, or None where it is not named at all."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[EntityType, str]:
        """Those parts that are named."""
        values = zip(EntityType, self, strict=True)
        return {part: name for part, name in values if name is not None}


class QuotaKey(StrEnum):
    """What is limited, by the name of its config."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


CLIENT_KEYS: Final = (
    QuotaKey.PRODUCER_BYTE_RATE,
    QuotaKey.CONSUMER_BYTE_RATE,
    QuotaKey.REQUEST_PERCENTAGE,
    QuotaKey.CONTROLLER_MUTATION_RATE,
)
"""Those that users and clients may have; addresses have the other one."""

LARGEST_WHOLE: Final = {
    QuotaKey.PRODUCER_BYTE_RATE: 2**63 - 1,
    QuotaKey.CONSUMER_BYTE_RATE: 2**63 - 1,
    QuotaKey.CONNECTION_CREATION_RATE: 2**31 - 1,
}
"""Quotas that are whole numbers, and how large they may be; the others may be fractions."""

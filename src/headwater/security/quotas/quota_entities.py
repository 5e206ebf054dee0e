"""Quota entities and quota keys, with Kafka's names.

An entity names a user, a client id, both, or an IP address.

Note: a part that is `DEFAULT` is not the same as a missing part. It applies to every user, client
id or address without a quota of its own, and each of them gets the full quota.
"""

from enum import StrEnum
from typing import Final, NamedTuple

DEFAULT: Final = ""
"""Cannot clash with a name: the protocol rejects empty names."""


class EntityType(StrEnum):
    """Entity types of the protocol."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class QuotaEntity(NamedTuple):
    """Each part is a name, `DEFAULT`, or None if the entity does not have it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[EntityType, str]:
        """Parts that are not None."""
        values = zip(EntityType, self, strict=True)
        return {part: name for part, name in values if name is not None}


class QuotaKey(StrEnum):
    """Quota config names."""

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
"""Quotas for users and client ids; the remaining one is for addresses."""

LARGEST_WHOLE: Final = {
    QuotaKey.PRODUCER_BYTE_RATE: 2**63 - 1,
    QuotaKey.CONSUMER_BYTE_RATE: 2**63 - 1,
    QuotaKey.CONNECTION_CREATION_RATE: 2**31 - 1,
}
"""Quotas that must be integers, with their maximum; the others may be fractions."""

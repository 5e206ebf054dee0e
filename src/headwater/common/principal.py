"""KafkaPrincipal: the principal of a request and the host that it comes from.

Unauthenticated clients are `User:ANONYMOUS`, as in Kafka.

Note: the principal of a connection can change by reauthentication, so look it up for each request.
"""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Principal, displayed as `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")


BROKER_PRINCIPAL: Final = Principal("Headwater", "broker")
"""Principal of a broker's requests to itself. No client can authenticate as it: all are `User`."""


class Requester(NamedTuple):
    """Principal and the address of its client as text."""

    principal: Principal
    host: str

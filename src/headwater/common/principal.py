"""Who asks: a principal, and the host that it asks from.

Whoever says nothing of themselves is `User:ANONYMOUS`, as in Kafka. What a reader would get wrong:
a connection's requester may be another one after a login, so it is asked for with each request and
not remembered.
"""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Who somebody is, as `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")


OURSELVES: Final = Principal("Headwater", "broker")
"""A broker that asks itself. Nobody can log in as it: all who do are a `User`."""


class Requester(NamedTuple):
    """A principal, and the address it asks from as text."""

    principal: Principal
    host: str

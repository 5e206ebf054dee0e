"""How a member comes to a group, whichever client it is of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    servers: str
    topic: str
    group: str
    strategy: str = "range"
    protocol: str = "classic"
    instance: str | None = None
    reset: str = "earliest"
    session_ms: int = 6_000

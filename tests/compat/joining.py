"""How a member joins a group, for any client."""

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

"""What all connections of a listener with SASL share: its mechanisms, its limits and its books."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.model.ports import Clock
from headwater.replication.deadlines import Deadlines
from headwater.security.sasl.exchange import ServerExchange


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedMechanism:
    """One mechanism of a listener."""

    # A new login.
    begin: Callable[[], ServerExchange]
    # How long a login holds before it must be renewed; 0 for ever.
    max_reauth_ms: int = 0
    # What must be known before a token can be judged; calls back when it is, now or later.
    prepare: Callable[[bytes, Callable[[], None]], None] | None = None
    # Whether tokens may be as large as `sasl.server.max.receive.size`.
    has_large_tokens: bool = False


@dataclass(slots=True)
class LoginCounters:
    """Logins by their outcome, for the metrics."""

    succeeded: int = 0
    failed: int = 0
    renewed: int = 0
    not_renewed: int = 0
    # Connections that asked for something after their login had run out.
    expired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """See the module."""

    name: str
    # In the order in which clients are told of them.
    mechanisms: Mapping[str, OfferedMechanism]
    clock: Clock
    deadlines: Deadlines
    # Before and after a login.
    receive_limit_bytes: int
    request_limit_bytes: int
    failed_delay_ms: int
    counters: LoginCounters = field(default_factory=LoginCounters)

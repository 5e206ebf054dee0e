"""What all connections of a listener with SASL share: its mechanisms, its limits and its books."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.common.ports import Clock
from headwater.replication.purgatory.timer import Timer
from headwater.security.authentication.sasl_exchange import SaslServer


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedMechanism:
    """One mechanism of a listener."""

    # A new login.
    begin: Callable[[], SaslServer]
    # How long a login holds before it must be renewed; 0 for ever.
    max_reauth_ms: int = 0
    # What must be known before a token can be judged; calls back when it is, now or later.
    prepare: Callable[[bytes, Callable[[], None]], None] | None = None
    # Whether tokens may be as large as `sasl.server.max.receive.size`.
    has_large_tokens: bool = False


@dataclass(slots=True)
class AuthenticationCounters:
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
    timer: Timer
    # Before and after a login.
    receive_limit_bytes: int
    request_limit_bytes: int
    failed_delay_ms: int
    counters: AuthenticationCounters = field(default_factory=AuthenticationCounters)

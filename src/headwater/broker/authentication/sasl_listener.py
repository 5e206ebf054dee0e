"""SASL state that a listener's connections share: mechanisms, limits, counters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.common.ports import Clock
from headwater.replication.purgatory.timer import Timer
from headwater.security.authentication.sasl_exchange import SaslServer


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedMechanism:
    """One mechanism of a listener."""

    # Starts an exchange.
    begin: Callable[[], SaslServer]
    # `connections.max.reauth.ms`: session lifetime until re-authentication; 0 for unlimited.
    max_reauth_ms: int = 0
    # Loads what is needed to validate a token, then calls back, now or later.
    prepare: Callable[[bytes, Callable[[], None]], None] | None = None
    # Whether tokens may be as large as `sasl.server.max.receive.size`.
    has_large_tokens: bool = False


@dataclass(slots=True)
class AuthenticationCounters:
    """Authentications by outcome, for the metrics."""

    succeeded: int = 0
    failed: int = 0
    renewed: int = 0
    not_renewed: int = 0
    # Connections closed because of a request after their session had expired.
    expired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """One listener that uses SASL."""

    name: str
    # In the order in which SaslHandshake lists them.
    mechanisms: Mapping[str, OfferedMechanism]
    clock: Clock
    timer: Timer
    # Before and after authentication.
    receive_limit_bytes: int
    request_limit_bytes: int
    failed_delay_ms: int
    counters: AuthenticationCounters = field(default_factory=AuthenticationCounters)

"""Limit the rate of new connections per IP address (KIP-612).

Note: a rejected connection is not counted, otherwise a client that keeps retrying would never be
accepted.
"""

from ipaddress import ip_address

from headwater.security.quotas.quota_entities import DEFAULT
from headwater.security.quotas.recent_clients import RecentClients
from headwater.security.quotas.sampled_rates import SampledRate, SampleWindow


class ConnectionRateQuota:
    """Connection creation quotas by address, and the observed rates."""

    def __init__(self, window: SampleWindow, *, limit: int) -> None:
        """`limit` limits the number of tracked addresses."""
        self._bounds: dict[str, float] = {}
        self._longest_ms = window.sample_ms
        self._rates: RecentClients[str, SampledRate] = RecentClients(
            lambda: SampledRate(window), limit=limit
        )

    def __bool__(self) -> bool:
        """Whether any quota is set."""
        return bool(self._bounds)

    def set(self, ip: str, bound: float | None) -> None:
        """Set or remove an address's quota; `DEFAULT` is for all other addresses.

        Ignores host names, which Kafka would resolve.
        """
        try:
            key = ip if ip == DEFAULT else str(ip_address(ip))
        except ValueError:
            return
        if bound is None:
            self._bounds.pop(key, None)
        else:
            self._bounds[key] = bound

    def throttle_ms(self, host: str, now_ms: int) -> int:
        """Record a connection and return 0, or how long to reject this address.

        `host` is an IP address.
        """
        bound = self._bounds.get(host, self._bounds.get(DEFAULT))
        if bound is None:
            return 0
        rate = self._rates.of(host, now_ms)
        throttle_ms = rate.throttle_ms(bound, now_ms, more=1)
        if throttle_ms > 0:
            return min(throttle_ms, self._longest_ms)
        rate.record(1, now_ms)
        return 0

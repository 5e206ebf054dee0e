"""How often an address may connect (KIP-612).

What a reader would get wrong: a connection that comes too soon is not counted, or whoever tries
again and again would never be let in.
"""

from ipaddress import ip_address

from headwater.security.quotas.quota_entities import DEFAULT
from headwater.security.quotas.recent_clients import RecentClients
from headwater.security.quotas.sampled_rates import SampledRate, SampleWindow


class ConnectionRateQuota:
    """Limits by address, and what each has used."""

    def __init__(self, window: SampleWindow, *, most: int) -> None:
        """`most` addresses are remembered at a time."""
        self._bounds: dict[str, float] = {}
        self._longest_ms = window.sample_ms
        self._rates: RecentClients[str, SampledRate] = RecentClients(
            lambda: SampledRate(window), most=most
        )

    def __bool__(self) -> bool:
        """Whether any address has a limit."""
        return bool(self._bounds)

    def set(self, ip: str, bound: float | None) -> None:
        """An address has this limit from now on, or none; `DEFAULT` is every other address.

        What is no address has none: Kafka looks names of hosts up, and we do not.
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
        """0 for a connection that is welcome; else for how long nobody else is let in.

        `host` is a plain address.
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

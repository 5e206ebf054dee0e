"""Track rates against one quota and compute throttle times (QU-2).

Note: `charge` never rejects. What it records has already happened; the throttle time delays the
client's next requests.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headwater.common.principal import Principal
from headwater.security.quotas.quota_limits import QuotaLimit, QuotaLimits, Sharing
from headwater.security.quotas.recent_clients import RecentClients
from headwater.security.quotas.sampled_rates import SampledRate, SampleWindow

LONGEST_CLIENT_ID: Final = 255
"""Client ids are tracked for an hour, so only this much of them is stored."""


class QuotaClient(NamedTuple):
    """User and client id of a request."""

    user: str
    client_id: str

    @classmethod
    def of(cls, principal: Principal, client_id: str) -> "QuotaClient":
        return cls(principal.name, client_id[:LONGEST_CLIENT_ID])


class QuotaUsage(NamedTuple):
    """Current rate of the clients that share a limit."""

    sharing: Sharing
    per_second: float


class RateQuota:
    def __init__(self, window: SampleWindow, *, limit: int, longest_ms: int | None = None) -> None:
        """`limit` limits the number of tracked entities, `longest_ms` the throttle time."""
        self.limits = QuotaLimits()
        self._window = window
        self._longest_ms = longest_ms
        self._rates: RecentClients[Sharing, SampledRate] = RecentClients(
            lambda: SampledRate(window), limit=limit
        )

    def charge(self, quota_client: QuotaClient, amount: float, now_ms: int) -> int:
        """Record usage and return the throttle time."""
        limit = self.limits.of(*quota_client)
        if limit is None:
            return 0
        rate = self._rate(limit, now_ms)
        rate.record(amount, now_ms)
        return self._shortened(rate.throttle_ms(limit.bound, now_ms))

    def charge_if_within(self, quota_client: QuotaClient, amount: float, now_ms: int) -> int:
        """Record usage unless it would exceed the quota; return the throttle time.

        An amount larger than a whole window allows is accepted when nothing else was recorded;
        otherwise it would never be.
        """
        limit = self.limits.of(*quota_client)
        if limit is None:
            return 0
        rate = self._rate(limit, now_ms)
        throttle_ms = rate.throttle_ms(limit.bound, now_ms, more=amount)
        if throttle_ms > 0 and rate.total(now_ms) > 0:
            return self._shortened(throttle_ms)
        rate.record(amount, now_ms)
        return 0

    def max_burst(self, quota_client: QuotaClient) -> float | None:
        """Largest amount that an idle client may use at once; None without a quota."""
        limit = self.limits.of(*quota_client)
        if limit is None:
            return None
        return limit.bound * (self._window.samples - 1) * self._window.sample_ms / 1_000

    def uses(self, now_ms: int) -> Iterator[QuotaUsage]:
        """Rates of recently active clients."""
        self._rates.expire(now_ms)
        for sharing, rate in self._rates:
            yield QuotaUsage(sharing, rate.per_second(now_ms))

    def _rate(self, limit: QuotaLimit, now_ms: int) -> SampledRate:
        return self._rates.of(limit.sharing, now_ms)

    def _shortened(self, throttle_ms: int) -> int:
        return throttle_ms if self._longest_ms is None else min(throttle_ms, self._longest_ms)

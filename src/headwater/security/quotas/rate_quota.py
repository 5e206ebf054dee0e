"""One kind of quota that is a rate: who has used how much of it, and who has to wait (QU-2).

What a reader would get wrong: whoever charges is told how long the client must be kept waiting,
and nothing is refused. What was charged is done, so the wait is for what comes next.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headwater.common.principal import Principal
from headwater.security.quotas.quota_limits import QuotaLimit, QuotaLimits, Sharing
from headwater.security.quotas.recent_clients import RecentClients
from headwater.security.quotas.sampled_rates import SampledRate, SampleWindow

LONGEST_CLIENT_ID: Final = 255
"""What a client calls itself is remembered for an hour, and so no more than this of it."""


class QuotaClient(NamedTuple):
    """Who asks, as far as quotas care: the name of a principal, and what a client calls itself."""

    user: str
    client_id: str

    @classmethod
    def of(cls, principal: Principal, client_id: str) -> "QuotaClient":
        return cls(principal.name, client_id[:LONGEST_CLIENT_ID])


class QuotaUsage(NamedTuple):
    """How much somebody uses."""

    sharing: Sharing
    per_second: float


class RateQuota:
    """See the module."""

    def __init__(self, window: SampleWindow, *, most: int, longest_ms: int | None = None) -> None:
        """`most` are remembered at a time. `longest_ms` is the longest wait there is, if any."""
        self.limits = QuotaLimits()
        self._window = window
        self._longest_ms = longest_ms
        self._rates: RecentClients[Sharing, SampledRate] = RecentClients(
            lambda: SampledRate(window), most=most
        )

    def charge(self, who: QuotaClient, amount: float, now_ms: int) -> int:
        """It was used; for how long the client has to wait now."""
        limit = self.limits.of(*who)
        if limit is None:
            return 0
        rate = self._rate(limit, now_ms)
        rate.record(amount, now_ms)
        return self._shortened(rate.throttle_ms(limit.bound, now_ms))

    def charge_if_within(self, who: QuotaClient, amount: float, now_ms: int) -> int:
        """It shall be used. Whoever has to wait gets nothing, and nothing is charged.

        What is more than a whole window allows is given when nothing else was: else never.
        """
        limit = self.limits.of(*who)
        if limit is None:
            return 0
        rate = self._rate(limit, now_ms)
        throttle_ms = rate.throttle_ms(limit.bound, now_ms, more=amount)
        if throttle_ms > 0 and rate.total(now_ms) > 0:
            return self._shortened(throttle_ms)
        rate.record(amount, now_ms)
        return 0

    def most_at_once(self, who: QuotaClient) -> float | None:
        """More than this is above the limit, even if nothing else was; None for no limit."""
        limit = self.limits.of(*who)
        if limit is None:
            return None
        return limit.bound * (self._window.samples - 1) * self._window.sample_ms / 1_000

    def uses(self, now_ms: int) -> Iterator[QuotaUsage]:
        """Of whoever was active lately."""
        self._rates.forget(now_ms)
        for sharing, rate in self._rates:
            yield QuotaUsage(sharing, rate.per_second(now_ms))

    def _rate(self, limit: QuotaLimit, now_ms: int) -> SampledRate:
        return self._rates.of(limit.sharing, now_ms)

    def _shortened(self, throttle_ms: int) -> int:
        return throttle_ms if self._longest_ms is None else min(throttle_ms, self._longest_ms)

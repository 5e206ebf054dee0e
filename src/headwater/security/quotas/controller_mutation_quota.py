"""Limit created and deleted partitions with a token bucket (QU-4, KIP-599).

A bucket instead of a rate: one large request must not throttle its client until its sample expires.

Note: a request may take any number of tokens while the bucket is not below zero. The next request
is throttled, or rejected if its version supports THROTTLING_QUOTA_EXCEEDED (`is_strict`).
"""

from headwater.security.quotas.quota_limits import QuotaLimits, Sharing
from headwater.security.quotas.rate_quota import QuotaClient
from headwater.security.quotas.recent_clients import RecentClients
from headwater.security.quotas.sampled_rates import SampleWindow, TokenBucket


class ControllerMutationQuota:
    """Token buckets of all clients."""

    def __init__(self, window: SampleWindow, *, limit: int) -> None:
        """`limit` limits the number of tracked entities."""
        self.limits = QuotaLimits()
        self._buckets: RecentClients[Sharing, TokenBucket] = RecentClients(
            lambda: TokenBucket(window), limit=limit
        )

    def allowance(
        self, quota_client: QuotaClient, *, is_strict: bool, now_ms: int
    ) -> "Allowance | None":
        """Start one request; None if no quota applies."""
        limit = self.limits.of(*quota_client)
        if limit is None:
            return None
        return Allowance(
            self._buckets.of(limit.sharing, now_ms), limit.bound, is_strict=is_strict, now_ms=now_ms
        )


class Allowance:
    """Tokens of one request. Its decisions all use the same time."""

    __slots__ = ("_bound", "_bucket", "_decided_ms", "_is_strict", "_throttle_ms")

    def __init__(self, bucket: TokenBucket, bound: float, *, is_strict: bool, now_ms: int) -> None:
        self._bucket = bucket
        self._bound = bound
        self._is_strict = is_strict
        self._decided_ms = now_ms
        self._throttle_ms = 0

    def take(self, partitions: int) -> bool:
        """Take tokens for one topic's partitions; False if the quota is exceeded."""
        now_ms = self._decided_ms
        if self._is_strict:
            throttle_ms = self._bucket.throttle_ms(self._bound, now_ms)
            if throttle_ms > 0:
                self._throttle_ms = throttle_ms
                return False
        self._bucket.take(partitions, self._bound, now_ms)
        if not self._is_strict:
            self._throttle_ms = self._bucket.throttle_ms(self._bound, now_ms)
        return True

    def throttle_ms(self, now_ms: int) -> int:
        """Remaining throttle time, less the time since the decision."""
        return max(0, self._throttle_ms - (now_ms - self._decided_ms))

"""Partitions that may be made and deleted (QU-4, KIP-599).

A bucket of tokens, and not a rate: one large request must not keep its client waiting until its
sample is forgotten. What a reader would get wrong: any number is allowed while the bucket is not
below zero. Whoever comes next waits, or is refused if the version of its request can say so.
"""

from headwater.security.quotas.quota_limits import QuotaLimits, Sharing
from headwater.security.quotas.rate_quota import QuotaClient
from headwater.security.quotas.recent_clients import RecentClients
from headwater.security.quotas.sampled_rates import SampleWindow, TokenBucket


class ControllerMutationQuota:
    """All clients' tokens."""

    def __init__(self, window: SampleWindow, *, most: int) -> None:
        """`most` are remembered at a time."""
        self.limits = QuotaLimits()
        self._buckets: RecentClients[Sharing, TokenBucket] = RecentClients(
            lambda: TokenBucket(window), most=most
        )

    def allowance(self, who: QuotaClient, *, is_strict: bool, now_ms: int) -> "Allowance | None":
        """What one request may take; None where there is no limit."""
        limit = self.limits.of(*who)
        if limit is None:
            return None
        return Allowance(
            self._buckets.of(limit.sharing, now_ms), limit.bound, is_strict=is_strict, now_ms=now_ms
        )


class Allowance:
    """The tokens of one request, which is decided at one moment."""

    __slots__ = ("_bound", "_bucket", "_decided_ms", "_is_strict", "_throttle_ms")

    def __init__(self, bucket: TokenBucket, bound: float, *, is_strict: bool, now_ms: int) -> None:
        self._bucket = bucket
        self._bound = bound
        self._is_strict = is_strict
        self._decided_ms = now_ms
        self._throttle_ms = 0

    def take(self, partitions: int) -> bool:
        """Whether so many may be made or deleted. Each topic of a request is asked for itself."""
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
        """How long the client has to wait; what has passed since the decision counts."""
        return max(0, self._throttle_ms - (now_ms - self._decided_ms))

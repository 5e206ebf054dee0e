"""Sampled rates (QU-2) and token buckets (QU-4).

Note: a rate is not the amount divided by the time since the first sample, which would put a client
far above any quota with its first request. All but one of the samples count as full, however recent
the first one is. Both computations follow Kafka (3.9).
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

_MS_PER_S = 1_000


class SampleWindow(NamedTuple):
    """`quota.window.num` samples of `quota.window.size.seconds`."""

    samples: int
    sample_ms: int

    @property
    def length_ms(self) -> int:
        return self.samples * self.sample_ms


@dataclass(slots=True)
class _Sample:
    began_ms: int
    last_ms: int
    amount: float


class SampledRate:
    """Rate over the window. Times must not go backwards."""

    __slots__ = ("_samples", "_window")

    def __init__(self, window: SampleWindow) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque()

    def record(self, amount: float, now_ms: int) -> None:
        samples = self._samples
        if not samples or now_ms - samples[-1].began_ms >= self._window.sample_ms:
            self._forget(now_ms)
            samples.append(_Sample(now_ms, now_ms, 0.0))
        newest = samples[-1]
        newest.amount += amount
        newest.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        return self.total(now_ms) * _MS_PER_S / self.span_ms(now_ms)

    def total(self, now_ms: int) -> float:
        """Amount recorded within the window."""
        self._forget(now_ms)
        return sum(sample.amount for sample in self._samples)

    def span_ms(self, now_ms: int) -> int:
        """Time that `total` is divided by."""
        self._forget(now_ms)
        sample_ms = self._window.sample_ms
        elapsed_ms = now_ms - self._samples[0].began_ms if self._samples else 0
        missing = self._window.samples - 1 - elapsed_ms // sample_ms
        if missing > 0:
            elapsed_ms += missing * sample_ms
        return max(elapsed_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int, *, more: float = 0.0) -> int:
        """Time until the rate is within its bound, if nothing more is recorded.

        `more` is added to the recorded amount.
        """
        span_ms = self.span_ms(now_ms)
        rate = (self.total(now_ms) + more) * _MS_PER_S / span_ms
        return round((rate - bound) / bound * span_ms) if rate > bound else 0

    def _forget(self, now_ms: int) -> None:
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._window.length_ms:
            samples.popleft()


class TokenBucket:
    """Token bucket that refills at the quota's rate, up to what a whole window allows.

    Any number of tokens may be taken while it is not below zero, so even a large request can pass.
    """

    __slots__ = ("_filled_ms", "_tokens", "_window")

    def __init__(self, window: SampleWindow) -> None:
        self._window = window
        self._filled_ms: int | None = None
        self._tokens = 0.0

    def take(self, amount: float, bound: float, now_ms: int) -> None:
        self._fill(bound, now_ms)
        self._tokens -= amount

    def tokens(self, bound: float, now_ms: int) -> float:
        """Remaining tokens; negative if more were taken than available."""
        self._fill(bound, now_ms)
        return self._tokens

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Time until the bucket is back at zero."""
        tokens = self.tokens(bound, now_ms)
        return round(-tokens / bound * _MS_PER_S) if tokens < 0 else 0

    def _fill(self, bound: float, now_ms: int) -> None:
        most = bound * self._window.length_ms / _MS_PER_S
        if self._filled_ms is None:
            self._tokens = most
        else:
            gained = bound * (now_ms - self._filled_ms) / _MS_PER_S
            self._tokens = min(most, self._tokens + gained)
        self._filled_ms = now_ms

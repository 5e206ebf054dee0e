"""How much has been used: a rate over the last samples (QU-2), and a bucket of tokens (QU-4).

What a reader would get wrong: a rate is not the amount divided by the time since its first sample.
Else whoever has just begun would be far above any limit. All but one of the samples are taken for
full, however young the first of them is. Kafka does both in this way (3.9).
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

_MS_PER_S = 1_000


class SampleWindow(NamedTuple):
    """How far back a rate looks: so many samples, each so long."""

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
    """What was recorded lately, per second. Times must not go back."""

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
        """What was recorded within the window."""
        self._forget(now_ms)
        return sum(sample.amount for sample in self._samples)

    def span_ms(self, now_ms: int) -> int:
        """The time that `total` is divided by."""
        self._forget(now_ms)
        sample_ms = self._window.sample_ms
        elapsed_ms = now_ms - self._samples[0].began_ms if self._samples else 0
        lacking = self._window.samples - 1 - elapsed_ms // sample_ms
        if lacking > 0:
            elapsed_ms += lacking * sample_ms
        return max(elapsed_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int, *, more: float = 0.0) -> int:
        """How long nothing may be recorded until the rate is within its bound again.

        With `more`, as if that had been recorded too.
        """
        span_ms = self.span_ms(now_ms)
        rate = (self.total(now_ms) + more) * _MS_PER_S / span_ms
        return round((rate - bound) / bound * span_ms) if rate > bound else 0

    def _forget(self, now_ms: int) -> None:
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._window.length_ms:
            samples.popleft()


class TokenBucket:
    """Fills steadily up to what a whole window allows; whoever empties it below zero waits.

    Any number may be taken while it is not below zero, so one large request is never impossible.
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
        """What is left; below zero when more was taken than there was."""
        self._fill(bound, now_ms)
        return self._tokens

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long it takes until it is back at zero."""
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

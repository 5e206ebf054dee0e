"""Limit bytes per second, measured over the last seconds."""

from collections import deque
from typing import Final

from headwater.common.settings.setting_types import LONG_MAX

_SAMPLES: Final = 11
_SAMPLE_MS: Final = 1_000


class ByteRateLimit:
    """Measures bytes over the last seconds against a limit.

    As in Kafka, the part of the window that has not elapsed yet counts as idle, so that the first
    burst does not count as the rate.
    """

    __slots__ = ("_samples", "_total_bytes", "limit")

    def __init__(self, limit: int = LONG_MAX) -> None:
        self.limit = limit
        # Start of each second, and its bytes.
        self._samples: deque[tuple[int, int]] = deque()
        self._total_bytes = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        if self.limit == LONG_MAX:
            return
        self._drop_old_samples(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < _SAMPLE_MS:
            began_ms, noted_bytes = self._samples.pop()
            self._samples.append((began_ms, noted_bytes + size_bytes))
        else:
            self._samples.append((now_ms, size_bytes))
        self._total_bytes += size_bytes

    def is_exceeded(self, now_ms: int) -> bool:
        if self.limit == LONG_MAX:
            return False
        self._drop_old_samples(now_ms)
        if not self._samples:
            return False
        span_ms = max(now_ms - self._samples[0][0], (_SAMPLES - 1) * _SAMPLE_MS)
        return self._total_bytes * 1_000 > self.limit * span_ms

    def _drop_old_samples(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= _SAMPLES * _SAMPLE_MS:
            self._total_bytes -= self._samples.popleft()[1]

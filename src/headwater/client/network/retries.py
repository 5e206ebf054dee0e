"""Retry idempotent calls with backoff until a deadline.

Note: the final `KafkaTimeout` contains the last error, so that a timeout never hides its cause.
Retries may be nested, and the outer deadline cancels the inner call: the last error of the inner
one is then the cause of its cancellation.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from headwater.client.errors import KafkaError, KafkaTimeout
from headwater.client.network.exponential_backoff import ExponentialBackoff
from headwater.common.ports import Clock, Random

T = TypeVar("T")


class Retrying:
    """Runs attempts with a backoff between them."""

    def __init__(self, clock: Clock, rng: Random, backoff: ExponentialBackoff) -> None:
        self._clock = clock
        self._rng = rng
        self._backoff = backoff

    async def until(
        self,
        deadline_ms: int,
        attempt: Callable[[], Awaitable[T]],
        *,
        is_retriable: Callable[[KafkaError], bool] = lambda error: error.is_retriable,
    ) -> T:
        """The result of the first successful attempt. Raises a fatal error at once.

        At the deadline it raises `KafkaTimeout` with the last error as its cause.
        """
        attempts = _Attempts()
        try:
            while True:
                left_ms = deadline_ms - self._clock.steady_ms()
                try:
                    async with asyncio.timeout(max(left_ms, 0) / 1000):
                        return await attempt()
                except KafkaError as error:
                    attempts.failed(error)
                    if not is_retriable(error):
                        raise
                    wait_ms = self._backoff.after(attempts.failures, self._rng)
                    if self._clock.steady_ms() + wait_ms >= deadline_ms:
                        raise attempts.timeout() from error
                    await asyncio.sleep(wait_ms / 1000)
                except TimeoutError as error:
                    attempts.last = attempts.last or last_kafka_error(error)
                    raise attempts.timeout() from error
        except asyncio.CancelledError as cancelled:
            raise cancelled from attempts.last or last_kafka_error(cancelled)


@dataclass(slots=True)
class _Attempts:
    """The number of failures and the last error."""

    failures: int = 0
    last: KafkaError | None = None

    def failed(self, error: KafkaError) -> None:
        self.failures += 1
        self.last = error

    def timeout(self) -> KafkaTimeout:
        if self.last is None:
            return KafkaTimeout("no response before the timeout")
        if isinstance(self.last, KafkaTimeout):
            # An inner timeout, which already contains the cause.
            return KafkaTimeout(str(self.last))
        return KafkaTimeout(f"failed {max(self.failures, 1)} times, last with: {self.last}")


def last_kafka_error(end: BaseException) -> KafkaError | None:
    """The last error before a timeout or cancellation: first Kafka error in causes."""
    cause = end.__cause__
    while cause is not None and not isinstance(cause, KafkaError):
        cause = cause.__cause__
    return cause

"""Trying again until a deadline, for calls that may be repeated.

What a reader would get wrong: the error at the end is the last one that a try gave, with the
limit in its text, so that "timed out" never hides why. Retries may be nested, and then the outer
limit ends the inner one: what the inner one last heard travels as the cause of its cancellation.
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
    """Runs tries with a back-off between them."""

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
        """What the first successful try gives. Raises a fatal error at once.

        At the deadline it raises `KafkaTimeout`, whose cause is the last error.
        """
        tries = _Tries()
        try:
            while True:
                left_ms = deadline_ms - self._clock.steady_ms()
                try:
                    async with asyncio.timeout(max(left_ms, 0) / 1000):
                        return await attempt()
                except KafkaError as error:
                    tries.failed(error)
                    if not is_retriable(error):
                        raise
                    wait_ms = self._backoff.after(tries.failures, self._rng)
                    if self._clock.steady_ms() + wait_ms >= deadline_ms:
                        raise tries.given_up() from error
                    await asyncio.sleep(wait_ms / 1000)
                except TimeoutError as error:
                    tries.last = tries.last or said_before(error)
                    raise tries.given_up() from error
        except asyncio.CancelledError as cancelled:
            raise cancelled from tries.last or said_before(cancelled)


@dataclass(slots=True)
class _Tries:
    """How often it failed, and what was heard last."""

    failures: int = 0
    last: KafkaError | None = None

    def failed(self, error: KafkaError) -> None:
        self.failures += 1
        self.last = error

    def given_up(self) -> KafkaTimeout:
        if self.last is None:
            return KafkaTimeout("no answer before the time limit")
        if isinstance(self.last, KafkaTimeout):
            # A limit within this one, which has said why.
            return KafkaTimeout(str(self.last))
        return KafkaTimeout(f"gave up after {max(self.failures, 1)} tries: {self.last}")


def said_before(end: BaseException) -> KafkaError | None:
    """What a try had last heard when its time was over."""
    cause = end.__cause__
    while cause is not None and not isinstance(cause, KafkaError):
        cause = cause.__cause__
    return cause

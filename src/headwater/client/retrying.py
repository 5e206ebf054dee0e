"""Trying again until a deadline, for calls that may be repeated.

What a reader would get wrong: the error at the end is the last one that a try gave, with the
limit in its text, so that "timed out" never hides why.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headwater.client.backoff import Backoff
from headwater.client.errors import KafkaError, KafkaTimeout
from headwater.model.ports import Clock, Dice

T = TypeVar("T")


class Retrying:
    """Runs tries with a back-off between them."""

    def __init__(self, clock: Clock, dice: Dice, backoff: Backoff) -> None:
        self._clock = clock
        self._dice = dice
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
        failures = 0
        while True:
            left_ms = deadline_ms - self._clock.steady_ms()
            try:
                async with asyncio.timeout(max(left_ms, 0) / 1000):
                    return await attempt()
            except KafkaError as error:
                if not is_retriable(error):
                    raise
                failures += 1
                wait_ms = self._backoff.after(failures, self._dice)
                if self._clock.steady_ms() + wait_ms >= deadline_ms:
                    raise KafkaTimeout(f"gave up after {failures} tries: {error}") from error
                await asyncio.sleep(wait_ms / 1000)
            except TimeoutError as error:
                raise KafkaTimeout(f"no answer before the time limit ({failures} tries)") from error

"""Clock and random source of a real process, for brokers and clients."""

import os
import time


class SystemClock:
    """See `headwater.common.ports.Clock`."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class SystemRandom:
    """See `headwater.common.ports.Random`."""

    __slots__ = ()

    def below(self, limit: int) -> int:
        # With 64 extra bits the bias of the remainder is negligible.
        count = (limit.bit_length() + 7) // 8 + 8
        return int.from_bytes(os.urandom(count), "big") % limit

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

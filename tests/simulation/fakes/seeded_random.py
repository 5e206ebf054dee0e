"""A seeded random source for pure code."""

import random


class SeededRandom:
    """`headwater.common.ports.Random` over one seeded generator."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def below(self, limit: int) -> int:
        return self._source.randrange(limit)

    def bytes(self, count: int) -> bytes:
        return self._source.randbytes(count)

"""The live tail: what is written to a topic from now on, as it comes (server-sent events).

What a reader would get wrong: a browser cannot show a hundred thousand records a second, and need
not. Each second has a limit; what is beyond is counted and left out, and the page says so.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Final

from headwater.client.errors import KafkaError
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock
from headwater.console.connections import Connections
from headwater.console.console_errors import ConsoleError, error_for
from headwater.console.views.record_search import matches
from headwater.console.views.records import filter_of, record_rows
from headwater.records.consumer_record import ConsumerRecord

TAILS_MAX: Final = 8
TAIL_MS_MAX: Final = 30 * 60 * 1000
RECORDS_PER_SECOND_MAX: Final = 100
TAIL_CHARS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRequest:
    """What somebody wants to follow."""

    topic: str
    partitions: tuple[int, ...]
    filter: str = ""
    within: str = "anywhere"
    key_format: str = "auto"
    value_format: str = "auto"
    committed_only: bool = False


class Tails:
    """The tails under way, and no more of them than there may be."""

    def __init__(self, connections: Connections, clock: Clock, ended: asyncio.Event) -> None:
        self._connections = connections
        self._clock = clock
        self._ended = ended
        self._count = 0

    def take_place(self) -> None:
        """Refuses before an answer has begun; `give_place_back` must follow, whatever happens."""
        if self._count >= TAILS_MAX:
            raise ConsoleError(
                503, f"{TAILS_MAX} tails are open, which is as many as there may be. Close one."
            )
        self._count += 1

    def give_place_back(self) -> None:
        self._count -= 1

    async def events(self, wish: TailRequest) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        try:
            async for event in self._events(wish):
                yield event
        except KafkaError as error:
            yield _event("failed", {"message": error_for(error).message})

    async def _events(self, wish: TailRequest) -> AsyncIterator[bytes]:
        places = [TopicPartition(wish.topic, each) for each in wish.partitions]
        word = filter_of(
            self._connections,
            wish.filter,
            place=wish.within,
            key_format=wish.key_format,
            value_format=wish.value_format,
        )
        end_ms = self._clock.steady_ms() + TAIL_MS_MAX
        async with self._connections.consumer(committed_only=wish.committed_only) as consumer:
            consumer.assign(places)
            consumer.seek_to_end()
            for place in places:
                await consumer.position(place)
            yield _event("ready", {"partitions": len(places)})
            second_ms, room = self._clock.steady_ms(), RECORDS_PER_SECOND_MAX
            while not self._ended.is_set():
                now_ms = self._clock.steady_ms()
                if now_ms >= end_ms:
                    yield _event("ended", {"minutes": TAIL_MS_MAX // 60_000})
                    return
                polled = await consumer.poll(1.0)
                if now_ms - second_ms >= 1_000:
                    second_ms, room = now_ms, RECORDS_PER_SECOND_MAX
                found = list(compress(polled, await matches(polled, word)))
                # The newest, if not all: a tail is about now.
                chosen = found[max(len(found) - room, 0) :]
                room -= len(chosen)
                yield await self._told(wish, chosen, skipped=len(found) - len(chosen))

    async def _told(
        self, wish: TailRequest, records: list[ConsumerRecord], *, skipped: int
    ) -> bytes:
        if not records and not skipped:
            # Says that we are still here, and finds out whether they are.
            return b": quiet\n\n"
        rows = await record_rows(
            self._connections,
            records,
            key_format=wish.key_format,
            value_format=wish.value_format,
            chars_max=TAIL_CHARS_MAX,
        )
        return _event("records", {"records": [asdict(row) for row in rows], "skipped": skipped})


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()

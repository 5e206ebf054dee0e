"""Live tail: stream new records of a topic as server-sent events.

Note: records beyond a limit per second are skipped and counted, and the page shows the count.
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
    """Parameters of a live tail."""

    topic: str
    partitions: tuple[int, ...]
    filter: str = ""
    within: str = "anywhere"
    key_format: str = "auto"
    value_format: str = "auto"
    committed_only: bool = False


class Tails:
    """Limit the number of concurrent live tails."""

    def __init__(self, connections: Connections, clock: Clock, ended: asyncio.Event) -> None:
        self._connections = connections
        self._clock = clock
        self._ended = ended
        self._count = 0

    def acquire(self) -> None:
        """Acquire a slot or raise, before the response starts. Always call `release`."""
        if self._count >= TAILS_MAX:
            raise ConsoleError(503, f"{TAILS_MAX} live tails are open, the maximum. Close one.")
        self._count += 1

    def release(self) -> None:
        self._count -= 1

    async def events(self, request: TailRequest) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        try:
            async for event in self._events(request):
                yield event
        except KafkaError as error:
            yield _event("failed", {"message": error_for(error).message})

    async def _events(self, request: TailRequest) -> AsyncIterator[bytes]:
        places = [TopicPartition(request.topic, each) for each in request.partitions]
        word = filter_of(
            self._connections,
            request.filter,
            place=request.within,
            key_format=request.key_format,
            value_format=request.value_format,
        )
        end_ms = self._clock.steady_ms() + TAIL_MS_MAX
        async with self._connections.consumer(committed_only=request.committed_only) as consumer:
            consumer.assign(places)
            consumer.seek_to_end()
            for place in places:
                await consumer.position(place)
            yield _event("ready", {"partitions": len(places)})
            second_ms, remaining = self._clock.steady_ms(), RECORDS_PER_SECOND_MAX
            while not self._ended.is_set():
                now_ms = self._clock.steady_ms()
                if now_ms >= end_ms:
                    yield _event("ended", {"minutes": TAIL_MS_MAX // 60_000})
                    return
                polled = await consumer.poll(1.0)
                if now_ms - second_ms >= 1_000:
                    second_ms, remaining = now_ms, RECORDS_PER_SECOND_MAX
                found = list(compress(polled, await matches(polled, word)))
                # If there are too many, the newest ones.
                chosen = found[max(len(found) - remaining, 0) :]
                remaining -= len(chosen)
                yield await self._records_event(request, chosen, skipped=len(found) - len(chosen))

    async def _records_event(
        self, request: TailRequest, records: list[ConsumerRecord], *, skipped: int
    ) -> bytes:
        if not records and not skipped:
            # A comment keeps the connection open and detects a closed one.
            return b": quiet\n\n"
        rows = await record_rows(
            self._connections,
            records,
            key_format=request.key_format,
            value_format=request.value_format,
            chars_max=TAIL_CHARS_MAX,
        )
        return _event("records", {"records": [asdict(row) for row in rows], "skipped": skipped})


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()

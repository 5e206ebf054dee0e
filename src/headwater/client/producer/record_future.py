"""The future of one record: light, because one is made for every `send`.

It is no more than a batch and a number in it. The batch knows the outcome of all its records; what
a single record needs is worked out when somebody asks. It can be waited for by a thread
(`result`), by a coroutine (`await`), or told to a function (`add_done_callback`).
"""

import asyncio
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.client.errors import KafkaError, KafkaTimeout

if TYPE_CHECKING:
    from headwater.client.producer.producer_batch import ProducerBatch


class RecordMetadata(NamedTuple):
    """Where a record lies. The offset is -1 if nobody was asked to confirm it (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class RecordFuture:
    """What becomes of one record. Thread-safe."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: "ProducerBatch", index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        return self._place()[0].is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record lies, or raise why it does not.

        Without a timeout it waits until the batch is settled, which `delivery.timeout.ms` bounds.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._metadata()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Why the record was not written; None if it was. Waits like `result`."""
        left_s = timeout
        until_s = None if timeout is None else time.monotonic() + timeout
        while True:
            batch, _ = self._place()
            if batch.is_done:
                return batch.error
            if not batch.wait(left_s):
                raise KafkaTimeout(f"the record was not settled within {timeout} s")
            # It may have been split, and now there is another batch to wait for.
            left_s = None if until_s is None else max(0.0, until_s - time.monotonic())

    def add_done_callback(self, callback: Callable[["RecordFuture"], object]) -> None:
        """Have a function called with this future: by the client's thread, or now if it is done."""
        batch, index = self._place()
        if not batch.add_callback(index, self, callback):
            callback(self)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            self.add_done_callback(lambda _: loop.call_soon_threadsafe(wake))
            yield from waiter
        return self.result(0)

    def _place(self) -> tuple["ProducerBatch", int]:
        """The batch that has the record at present: one that was too large was split.

        Found anew each time and not kept, because several threads may look at once.
        """
        batch, index = self._batch, self._index
        while batch.parts is not None:
            batch, index = batch.part_with(index)
        return batch, index

    def _metadata(self) -> RecordMetadata:
        batch, index = self._place()
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        stamped = batch.append_time_ms
        return RecordMetadata(
            batch.topic, batch.partition, offset, self._timestamp if stamped < 0 else stamped
        )

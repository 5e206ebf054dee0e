"""The future of one record. Lightweight, because every `send` creates one.

It only references a batch and an index in it. The batch has the outcome of all its records. A
thread can wait for it (`result`), a coroutine can `await` it, and `add_done_callback` adds a
callback.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.client.errors import KafkaError, KafkaTimeout

if TYPE_CHECKING:
    from headwater.client.producer.producer_batch import ProducerBatch


class RecordMetadata(NamedTuple):
    """Where a record was written. The offset is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class RecordFuture:
    """The result of sending one record. Thread-safe."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: "ProducerBatch", index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        return self._place()[0].is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement; raise the error if the record failed.

        Without a timeout, `delivery.timeout.ms` is the limit.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._metadata()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """The error of the record; None if it was written. Waits like `result`."""
        left_s = timeout
        until_s = None if timeout is None else time.monotonic() + timeout
        while True:
            batch, _ = self._place()
            if batch.is_done:
                return batch.error
            if not batch.wait(left_s):
                raise KafkaTimeout(f"the record was not acknowledged within {timeout} s")
            # The batch may have been split; wait for the part with this record.
            left_s = None if until_s is None else max(0.0, until_s - time.monotonic())

    def add_done_callback(self, callback: Callable[["RecordFuture"], object]) -> None:
        """Call a function with this future: on the client's thread, or now if it is done."""
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
        """The batch that has the record now, after splits.

        Computed each time and not stored, because several threads may call this.
        """
        batch, index = self._batch, self._index
        while batch.parts is not None:
            batch, index = batch.split_with(index)
        return batch, index

    def _metadata(self) -> RecordMetadata:
        batch, index = self._place()
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        stamped = batch.append_time_ms
        return RecordMetadata(
            batch.topic, batch.partition, offset, self._timestamp if stamped < 0 else stamped
        )

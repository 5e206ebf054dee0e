"""Blocking and asyncio producer behind one interface, so that a test runs for both."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headwater.client import Producer
from headwater.client.aio import Producer as AioProducer
from headwater.client.producer.producer_engine import ProducerEngine
from headwater.client.producer.record_future import RecordFuture, RecordMetadata
from tests.simulation.fakes.mock_broker import BackgroundLoop

TIMEOUT_S = 30.0

T = TypeVar("T")


class Blocking:
    """The blocking producer as it is."""

    name = "blocking"

    def __init__(self, **settings: object) -> None:
        self.producer = Producer(settings)

    @property
    def engine(self) -> ProducerEngine:
        return self.producer._engine

    def send(self, *args: Any, **keywords: Any) -> RecordFuture:
        return self.producer.send(*args, **keywords)

    def result(self, future: RecordFuture) -> RecordMetadata:
        return future.result(TIMEOUT_S)

    def do(self, name: str, *args: Any, **keywords: Any) -> Any:
        return getattr(self.producer, name)(*args, **keywords)

    def close(self, timeout: float = 0) -> None:
        self.producer.close(timeout)


class Asynchronous:
    """The asyncio producer on a loop in the background."""

    name = "asyncio"

    def __init__(self, **settings: object) -> None:
        self._loop = BackgroundLoop()
        self._is_closed = False

        async def make() -> AioProducer:
            return await AioProducer(settings).__aenter__()

        self.producer = self._loop.do(make())

    @property
    def engine(self) -> ProducerEngine:
        return self.producer._engine()

    def send(self, *args: Any, **keywords: Any) -> RecordFuture:
        return self._loop.do(self.producer.send(*args, **keywords))

    def result(self, future: RecordFuture) -> RecordMetadata:
        async def wait() -> RecordMetadata:
            return await future

        return self._loop.do(wait())

    def do(self, name: str, *args: Any, **keywords: Any) -> Any:
        called = getattr(self.producer, name)(*args, **keywords)
        return self._loop.do(called) if isinstance(called, Coroutine) else called

    def close(self, timeout: float = 0) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.do(self.producer.close(timeout))
            self._loop.close()


Face = Blocking | Asynchronous
OpenProducer = Callable[..., Face]

"""Keep clients between the tasks of a Python worker: connecting takes time.

The caches are module state, since a worker process offers no other place that outlives a task. They
are bounded, and a client that failed is not reused. A forked process does not use the clients of
its parent: threads do not survive a fork.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, Generic, Protocol, TypeVar

from headwater.client import Producer
from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.client.errors import KafkaError

_KEPT_MAX: Final = 8


class Client(Protocol):
    """A client that can be cached."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Client)
_Key = tuple[int, tuple[tuple[str, str], ...]]


class ClientCache(Generic[C]):
    """Clients by their settings; the least recently used makes room."""

    def __init__(self, make: Callable[[Mapping[str, str]], C], limit: int = _KEPT_MAX) -> None:
        self._make = make
        self._limit = limit
        self._clients: OrderedDict[_Key, C] = OrderedDict()

    def get(self, settings: Mapping[str, str]) -> C:
        """Return a client with these settings, cached by an earlier task if possible."""
        key = _key(settings)
        client = self._clients.pop(key, None) or self._make(settings)
        self._clients[key] = client
        while len(self._clients) > self._limit:
            _, oldest = self._clients.popitem(last=False)
            _close(oldest)
        return client

    def take(self, settings: Mapping[str, str]) -> C | None:
        """Remove and return the client with these settings."""
        return self._clients.pop(_key(settings), None)

    def drop(self, settings: Mapping[str, str]) -> None:
        """Drop a client that has failed; the next task gets a new one."""
        client = self.take(settings)
        if client is not None:
            _close(client)


_readers: Final = ClientCache(OffsetRangeReader)
_producers: Final = ClientCache(Producer)


def cached_reader(settings: Mapping[str, str]) -> OffsetRangeReader:
    return _readers.get(settings)


def drop_reader(settings: Mapping[str, str]) -> None:
    _readers.drop(settings)


@contextmanager
def cached_producer(settings: Mapping[str, str]) -> Iterator[Producer]:
    """A producer for one task, without unsent records of an earlier failed task."""
    producer = _producers.get(settings)
    try:
        yield producer
    except BaseException:
        _producers.take(settings)
        with suppress(KafkaError):
            producer.close(timeout=0)
        raise


def _key(settings: Mapping[str, str]) -> _Key:
    return os.getpid(), tuple(sorted(settings.items()))


def _close(client: Client) -> None:
    with suppress(KafkaError):
        client.close()

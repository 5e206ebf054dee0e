"""The consumer instances that clients have created, and their expiry.

An instance belongs to this process: its URL has this server's address. It expires if no request
uses it for `consumer.instance.timeout.ms`, since clients may disappear without a word.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from headwater.client.errors import KafkaError
from headwater.common.ports import Clock
from headwater.rest.consumer_reader import ConsumerReader
from headwater.rest.rest_errors import (
    RestProxyError,
    consumer_instance_exists,
    consumer_instance_not_found,
)

_CLOSE_S: Final = 5.0
_SHUTDOWN_S: Final = 3.0
_CHECK_S_MAX: Final = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstanceName:
    """A consumer group and the name of an instance in it."""

    group: str
    instance: str


class ConsumerInstance:
    """One consumer. Requests to it run one after the other."""

    def __init__(self, name: InstanceName, reader: ConsumerReader, *, deadline_ms: int) -> None:
        self.name = name
        self.reader = reader
        self.lock = asyncio.Lock()
        self.deadline_ms = deadline_ms
        self.is_closed = False

    def has_expired(self, now_ms: int) -> bool:
        """An instance in use does not expire."""
        return not self.lock.locked() and now_ms >= self.deadline_ms


class ConsumerInstances:
    """All instances of this process, bounded in number."""

    def __init__(self, clock: Clock, *, timeout_ms: int, instances_max: int) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._instances_max = instances_max
        self._instances: dict[InstanceName, ConsumerInstance] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._instances)

    def create(self, name: InstanceName, make: Callable[[], ConsumerReader]) -> None:
        """Add an instance; `RestProxyError` if it exists or there are too many."""
        if name in self._instances:
            raise consumer_instance_exists()
        if len(self._instances) >= self._instances_max:
            raise RestProxyError(
                429, f"This server has {self._instances_max} consumer instances, its maximum."
            )
        self._instances[name] = ConsumerInstance(name, make(), deadline_ms=self._deadline_ms())

    @asynccontextmanager
    async def use(self, name: InstanceName) -> AsyncIterator[ConsumerReader]:
        """Hold an instance for one request, which extends its life."""
        instance = self._instances.get(name)
        if instance is None:
            raise consumer_instance_not_found()
        async with instance.lock:
            if instance.is_closed:
                raise consumer_instance_not_found()
            try:
                yield instance.reader
            finally:
                instance.deadline_ms = self._deadline_ms()

    async def delete(self, name: InstanceName) -> None:
        """Leave the group and forget the instance."""
        instance = self._instances.get(name)
        if instance is None:
            raise consumer_instance_not_found()
        async with instance.lock:
            if instance.is_closed:
                raise consumer_instance_not_found()
            self._remove(instance)
            await _close(instance, _CLOSE_S)

    async def run_expiry(self) -> None:
        """Close instances that have expired, until cancelled."""
        while True:
            await asyncio.sleep(min(_CHECK_S_MAX, self._timeout_ms / 2_000))
            self.expire()

    def expire(self) -> None:
        """Start to close the instances that have expired."""
        now_ms = self._clock.steady_ms()
        expired = [each for each in self._instances.values() if each.has_expired(now_ms)]
        for instance in expired:
            log.info(
                "Consumer instance expired: group=%r instance=%r",
                instance.name.group,
                instance.name.instance,
            )
            self._remove(instance)
            task = asyncio.create_task(_close(instance, _CLOSE_S))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all instances, so that their groups rebalance at once."""
        instances = list(self._instances.values())
        for instance in instances:
            self._remove(instance)
        closing = [_close(instance, _SHUTDOWN_S) for instance in instances]
        await asyncio.gather(*closing, *self._closing)

    def _remove(self, instance: ConsumerInstance) -> None:
        instance.is_closed = True
        del self._instances[instance.name]

    def _deadline_ms(self) -> int:
        return self._clock.steady_ms() + self._timeout_ms


async def _close(instance: ConsumerInstance, timeout_s: float) -> None:
    try:
        await instance.reader.close(timeout_s)
    except KafkaError as error:
        # The coordinator removes the member after its session timeout.
        log.warning("Cannot leave group: group=%r error=%s", instance.name.group, error)

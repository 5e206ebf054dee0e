"""The topic `_schemas`: read from its beginning and followed, written in transactions.

All instances of a registry share one `transactional.id`. Who wants to write takes it, which fences
whoever had it, and reads to the end of the topic before deciding. If another instance takes it
meanwhile, the write fails as a whole, and is decided again on what is there then. So any number of
instances may write, one after the other, and none decides on what is no longer true.

What a reader would get wrong: what was written is not known yet. The answer waits until the record
has come back through the consumer, as everybody else's does.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, TypeVar

from headwater.client.admin.descriptions import ConfigResource
from headwater.client.aio import Admin, Consumer, Producer
from headwater.client.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    ProducerFenced,
    TopicAlreadyExists,
    TransactionAbortable,
)
from headwater.common.exceptions import HeadwaterError, InvalidSetting
from headwater.common.ids import TopicPartition
from headwater.records.consumer_record import ConsumerRecord
from headwater.registry.commands import RegistryChange
from headwater.registry.registry_errors import (
    REGISTER,
    STORE_FAILED,
    Operation,
    RestError,
    schema_too_large,
)
from headwater.registry.registry_state import State
from headwater.registry.schemas_topic_records import (
    TOPIC,
    Entry,
    key_bytes,
    read_entry,
    value_bytes,
)

_PLACE: Final = TopicPartition(TOPIC, 0)
_REPLICAS_MAX: Final = 3
_ATTEMPTS_MAX: Final = 10
_POLL_S: Final = 0.5
_LOOK_AGAIN_S: Final = 0.005
_BACKOFF_S: Final = 0.5
_START_S: Final = 60.0
_TRANSACTIONAL_ID: Final = "headwater-schema-registry"
_CLIENT_ID: Final = "headwater-schema-registry"
# What a writer hears whose transaction another instance has ended; which, depends on how far it
# was. Nothing of it is in force, so it is decided again, after what the other one wrote.
_OVERTAKEN: Final = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, TransactionAbortable)

# Checks hold the interpreter lock and so do not get faster with more threads; with more than one, a
# short check does not wait for a long one.
_THREADS: Final = 4

T = TypeVar("T")

log = logging.getLogger(__name__)


class SchemaStore:
    """The state of a registry, and the way to change it. Lives on one loop."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        timeout_s: float = 10.0,
        client_settings: Mapping[str, object] = MappingProxyType({}),
        executor: Executor | None = None,
    ) -> None:
        """`timeout_s` bounds each write. `client_settings` are those that all clients have.

        `executor` runs what takes time; it is shut down by `close`.
        """
        self._client: dict[str, object] = {
            "client.id": _CLIENT_ID,
            **client_settings,
            "bootstrap.servers": bootstrap_servers,
        }
        self._timeout_s = timeout_s
        self._known = State()
        self._consumer: Consumer | None = None
        self._scout: Consumer | None = None
        self._producer: Producer | None = None
        self._following: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._is_loaded = False
        self._snapshot: State | None = None
        self._executor = executor or ThreadPoolExecutor(_THREADS, "schema-registry")
        self.cluster_id = ""

    @property
    def state(self) -> State:
        """What is known now. Raises `RestError` while the topic is read again."""
        if not self._is_loaded:
            raise RestError(STORE_FAILED, "The topic _schemas is being read; try again soon")
        return self._known

    async def ask(self, question: Callable[[State], T]) -> T:
        """Answer a question that may take long, on another thread. Raises `RestError`.

        Other requests are answered meanwhile. The state that the question sees does not change.
        """
        if self._snapshot is None:
            self._snapshot = self.state.snapshot()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, question, self._snapshot)

    async def start(self) -> None:
        """Return when all that the topic has is known."""
        try:
            async with asyncio.timeout(_START_S):
                await self._make_topic()
                self._consumer = self._new_consumer()
                self._scout = self._new_consumer()
                self._following = asyncio.create_task(self._follow(self._consumer))
                await self._catch_up()
                self._is_loaded = True
        except TimeoutError as error:
            raise KafkaError(f"the topic {TOPIC} could not be read in time") from error

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        await self._drop_producer()
        for consumer in (self._consumer, self._scout):
            if consumer is not None:
                await consumer.close(0)
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def execute(
        self, decide: Callable[[State], RegistryChange], operation: Operation = REGISTER
    ) -> Any:
        """Decide, write, read back; the answer. Raises `RestError`, in the words of `operation`."""
        try:
            async with asyncio.timeout(self._timeout_s), self._writing:
                for _ in range(_ATTEMPTS_MAX):
                    try:
                        return await self._attempt(decide)
                    except _OVERTAKEN:
                        log.info("another instance has written meanwhile; deciding again")
        except TimeoutError as error:
            raise operation.has_timed_out() from error
        except MessageTooLarge as error:
            raise schema_too_large() from error
        except KafkaError as error:
            log.warning("The topic %s was not written: %s", TOPIC, error)
            raise operation.store_failed() from error
        log.warning("Other instances have written before this one each time: %s", TOPIC)
        raise operation.forwarding_failed()

    async def _attempt(self, decide: Callable[[State], RegistryChange]) -> Any:
        is_sound = False
        try:
            producer = await self._own_producer()
            await self._catch_up()
            decision = await self.ask(decide)
            if decision.entries:
                await self._until(await self._write(producer, decision) + 1)
            is_sound = True
            return decision.answer
        except RestError:
            is_sound = True
            raise
        finally:
            if not is_sound:
                # What is under way on it ends with the next owner of the id, one way or the other.
                await self._drop_producer()

    async def _own_producer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                self._client,
                transactional_id=_TRANSACTIONAL_ID,
                linger_ms=0,
                max_block_ms=round(self._timeout_s * 1000),
            )
            await self._producer.init_transactions()
        return self._producer

    async def _write(self, producer: Producer, decision: RegistryChange) -> int:
        """The offset of the last record, once all are committed."""
        await producer.begin_transaction()
        sent = [
            await producer.send(
                TOPIC, value_bytes(each.value), key=self._key_of(each), partition=_PLACE.partition
            )
            for each in decision.entries
        ]
        await producer.commit_transaction()
        return (await sent[-1]).offset

    def _key_of(self, entry: Entry) -> bytes:
        return self._known.raw_keys.get(entry.key) or key_bytes(entry.key)

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaError):
                await producer.close(0)

    # Reading.

    async def _make_topic(self) -> None:
        async with Admin(self._client) as admin:
            cluster = await admin.describe_cluster()
            self.cluster_id = cluster.cluster_id
            with suppress(TopicAlreadyExists):
                await admin.create_topic(
                    TOPIC,
                    partitions=1,
                    replication_factor=min(len(cluster.brokers), _REPLICAS_MAX),
                    configs={"cleanup.policy": "compact"},
                )
            described = (await admin.describe_topics([TOPIC]))[TOPIC]
            resource = ConfigResource.topic(TOPIC)
            configs = (await admin.describe_configs([resource]))[resource]
        if len(described.partitions) != 1:
            raise InvalidSetting(f"the topic {TOPIC} must have one partition")
        policy = configs["cleanup.policy"].value
        if policy != "compact":
            raise InvalidSetting(
                f"the topic {TOPIC} must have cleanup.policy=compact, and not {policy}, "
                "which forgets schemas"
            )

    def _new_consumer(self) -> Consumer:
        consumer = Consumer(
            self._client,
            isolation_level="read_committed",
            auto_offset_reset="none",
            enable_auto_commit=False,
            exclude_internal_topics=False,
        )
        consumer.assign([_PLACE])
        consumer.seek_to_beginning()
        return consumer

    async def _follow(self, consumer: Consumer) -> None:
        while True:
            try:
                for record in await consumer.poll(_POLL_S):
                    self._apply(record)
            except HeadwaterError as error:
                log.warning("the topic %s cannot be read: %s", TOPIC, error)
                if not error.code.is_retriable:
                    self._read_again(consumer)
                await asyncio.sleep(_BACKOFF_S)
            if not self._is_loaded and self._following is not None:
                await self._look_whether_loaded(consumer)

    def _read_again(self, consumer: Consumer) -> None:
        """The topic is another one, or was cut: what is known is worth nothing."""
        self._is_loaded = False
        self._known = State()
        self._snapshot = None
        consumer.seek_to_beginning()

    async def _look_whether_loaded(self, consumer: Consumer) -> None:
        with suppress(HeadwaterError):
            assert self._scout is not None
            end = (await self._scout.end_offsets([_PLACE], timeout=_POLL_S))[_PLACE]
            self._is_loaded = await consumer.position(_PLACE, timeout=_POLL_S) >= end

    def _apply(self, record: ConsumerRecord) -> None:
        try:
            entry = read_entry(record.key, record.value)
        except ValueError as error:
            log.warning("%s, offset %d: left out, since %s", TOPIC, record.offset, error)
            return
        if entry is not None:
            self._snapshot = None
            self._known.apply(entry, record.key)

    async def _catch_up(self) -> None:
        """Know all that is committed now."""
        assert self._scout is not None
        await self._until((await self._scout.end_offsets([_PLACE]))[_PLACE])

    async def _until(self, offset: int) -> None:
        """The consumer skips markers without a word; so we look where it is, again and again."""
        assert self._consumer is not None
        while await self._consumer.position(_PLACE) < offset:
            await asyncio.sleep(_LOOK_AGAIN_S)

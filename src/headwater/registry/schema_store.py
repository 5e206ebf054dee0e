"""Read `_schemas` from the beginning, follow it, and write it in transactions.

All instances of a registry share one `transactional.id`. To write, an instance initializes its
producer, which fences the previous one, and reads to the end of the topic before it decides. If
another instance fences it meanwhile, the transaction fails as a whole and the instance decides
again on the new state. So any number of instances can write, one after the other, and none of them
decides on stale state.

Note: an instance learns its own writes by consuming them. The response is sent only after the
consumer has read the record back.
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

_PARTITION: Final = TopicPartition(TOPIC, 0)
_REPLICAS_MAX: Final = 3
_ATTEMPTS_MAX: Final = 10
_POLL_S: Final = 0.5
_POSITION_CHECK_S: Final = 0.005
_BACKOFF_S: Final = 0.5
_START_S: Final = 60.0
_TRANSACTIONAL_ID: Final = "headwater-schema-registry"
_CLIENT_ID: Final = "headwater-schema-registry"
# Errors of a writer that another instance has fenced; which one depends on how far its transaction
# was. The transaction is aborted, so the change is decided again on the new state.
_FENCED: Final = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, TransactionAbortable)

# Compatibility checks hold the GIL, so more threads do not make them faster. But with more than one
# thread, a short check does not wait for a long one.
_THREADS: Final = 4

T = TypeVar("T")

log = logging.getLogger(__name__)


class SchemaStore:
    """The registry's state, and the way to change it. Belongs to one event loop."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        timeout_s: float = 10.0,
        client_settings: Mapping[str, object] = MappingProxyType({}),
        executor: Executor | None = None,
    ) -> None:
        """`timeout_s` bounds each write; `client_settings` apply to all clients.

        `executor` runs slow checks; `close` shuts it down.
        """
        self._client: dict[str, object] = {
            "client.id": _CLIENT_ID,
            **client_settings,
            "bootstrap.servers": bootstrap_servers,
        }
        self._timeout_s = timeout_s
        self._state = State()
        self._consumer: Consumer | None = None
        self._offsets_consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._following: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._is_loaded = False
        self._snapshot: State | None = None
        self._executor = executor or ThreadPoolExecutor(_THREADS, "schema-registry")
        self.cluster_id = ""

    @property
    def state(self) -> State:
        """The current state. Raises `RestError` while the topic is read again."""
        if not self._is_loaded:
            raise RestError(STORE_FAILED, "The topic _schemas is being read; try again soon")
        return self._state

    async def query(self, query: Callable[[State], T]) -> T:
        """Run a query that may be slow on another thread, with a snapshot of the state.

        Raises what the query raises. The event loop keeps answering other requests.
        """
        if self._snapshot is None:
            self._snapshot = self.state.snapshot()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, query, self._snapshot)

    async def start(self) -> None:
        """Create `_schemas` if necessary and read it to its end."""
        try:
            async with asyncio.timeout(_START_S):
                await self._create_topic()
                self._consumer = self._new_consumer()
                self._offsets_consumer = self._new_consumer()
                self._following = asyncio.create_task(self._follow(self._consumer))
                await self._catch_up()
                self._is_loaded = True
        except TimeoutError as error:
            raise KafkaError(f"could not read topic {TOPIC} within {_START_S:.0f} s") from error

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        await self._drop_producer()
        for consumer in (self._consumer, self._offsets_consumer):
            if consumer is not None:
                await consumer.close(0)
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def execute(
        self, decide: Callable[[State], RegistryChange], operation: Operation = REGISTER
    ) -> Any:
        """Decide, write, read back, and answer; `operation` has the error texts."""
        try:
            async with asyncio.timeout(self._timeout_s), self._writing:
                for _ in range(_ATTEMPTS_MAX):
                    try:
                        return await self._attempt(decide)
                    except _FENCED:
                        log.info(
                            "Write fenced by another instance, deciding again: topic=%s", TOPIC
                        )
        except TimeoutError as error:
            raise operation.has_timed_out() from error
        except MessageTooLarge as error:
            raise schema_too_large() from error
        except KafkaError as error:
            log.warning("Write failed: topic=%s error=%s", TOPIC, error)
            raise operation.store_failed() from error
        log.warning(
            "Write failed, fenced by other instances each time: topic=%s attempts=%d",
            TOPIC,
            _ATTEMPTS_MAX,
        )
        raise operation.forwarding_failed()

    async def _attempt(self, decide: Callable[[State], RegistryChange]) -> Any:
        is_producer_usable = False
        try:
            producer = await self._own_producer()
            await self._catch_up()
            decision = await self.query(decide)
            if decision.entries:
                await self._until(await self._write(producer, decision) + 1)
            is_producer_usable = True
            return decision.answer
        except RestError:
            is_producer_usable = True
            raise
        finally:
            if not is_producer_usable:
                # The next producer with this transactional id completes or aborts its transaction.
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
        """Write in one transaction; return the last record's offset once committed."""
        await producer.begin_transaction()
        sent = [
            await producer.send(
                TOPIC,
                value_bytes(each.value),
                key=self._key_of(each),
                partition=_PARTITION.partition,
            )
            for each in decision.entries
        ]
        await producer.commit_transaction()
        return (await sent[-1]).offset

    def _key_of(self, entry: Entry) -> bytes:
        return self._state.raw_keys.get(entry.key) or key_bytes(entry.key)

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaError):
                await producer.close(0)

    # Reading.

    async def _create_topic(self) -> None:
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
            raise InvalidSetting(
                f"topic {TOPIC} must have one partition, it has {len(described.partitions)}"
            )
        policy = configs["cleanup.policy"].value
        if policy != "compact":
            raise InvalidSetting(
                f"topic {TOPIC} must have cleanup.policy=compact, not {policy}, "
                "which would delete schemas"
            )

    def _new_consumer(self) -> Consumer:
        consumer = Consumer(
            self._client,
            isolation_level="read_committed",
            auto_offset_reset="none",
            enable_auto_commit=False,
            exclude_internal_topics=False,
        )
        consumer.assign([_PARTITION])
        consumer.seek_to_beginning()
        return consumer

    async def _follow(self, consumer: Consumer) -> None:
        while True:
            try:
                for record in await consumer.poll(_POLL_S):
                    self._apply(record)
            except HeadwaterError as error:
                log.warning("Read failed: topic=%s error=%s", TOPIC, error)
                if not error.code.is_retriable:
                    self._read_again(consumer)
                await asyncio.sleep(_BACKOFF_S)
            if not self._is_loaded and self._following is not None:
                await self._check_loaded(consumer)

    def _read_again(self, consumer: Consumer) -> None:
        """Start over: the topic was recreated or truncated, so the state is invalid."""
        self._is_loaded = False
        self._state = State()
        self._snapshot = None
        consumer.seek_to_beginning()

    async def _check_loaded(self, consumer: Consumer) -> None:
        with suppress(HeadwaterError):
            assert self._offsets_consumer is not None
            end = (await self._offsets_consumer.end_offsets([_PARTITION], timeout=_POLL_S))[
                _PARTITION
            ]
            self._is_loaded = await consumer.position(_PARTITION, timeout=_POLL_S) >= end

    def _apply(self, record: ConsumerRecord) -> None:
        try:
            entry = read_entry(record.key, record.value)
        except ValueError as error:
            log.warning(
                "Ignored malformed record: topic=%s offset=%d error=%s", TOPIC, record.offset, error
            )
            return
        if entry is not None:
            self._snapshot = None
            self._state.apply(entry, record.key)

    async def _catch_up(self) -> None:
        """Read everything that is committed now."""
        assert self._offsets_consumer is not None
        await self._until((await self._offsets_consumer.end_offsets([_PARTITION]))[_PARTITION])

    async def _until(self, offset: int) -> None:
        """Poll the consumer's position, which also advances past transaction markers."""
        assert self._consumer is not None
        while await self._consumer.position(_PARTITION) < offset:
            await asyncio.sleep(_POSITION_CHECK_S)

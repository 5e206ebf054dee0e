"""Follow the config, status and offset topics, and write configs in transactions.

Any worker of a group may change configs. All share one `transactional.id`: to write, a worker
initializes its producer, which fences the previous writer, and reads to the end of the config topic
before it decides. If it is fenced meanwhile, the transaction fails as a whole, and the worker
decides again on the new state.

Statuses are the active worker's. It claims them with another `transactional.id`, so that a worker
that does not know yet that it was replaced cannot overwrite them.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headwater.client.admin.descriptions import ConfigResource
from headwater.client.aio import Admin, Consumer, Producer
from headwater.client.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TopicAlreadyExists,
    TransactionAbortable,
)
from headwater.common.exceptions import HeadwaterError, InvalidSetting
from headwater.common.ids import TopicPartition
from headwater.connect.runtime.connect_errors import ConnectRestError
from headwater.connect.runtime.connect_records import (
    ConnectRecord,
    OffsetRecord,
    decode_record,
    encode_record,
)
from headwater.connect.runtime.connect_state import ConnectState
from headwater.connect.runtime.worker_settings import WorkerFile
from headwater.records.consumer_record import ConsumerRecord

_POLL_S: Final = 0.5
_POSITION_CHECK_S: Final = 0.005
_BACKOFF_S: Final = 0.5
_START_S: Final = 60.0
_WRITE_S: Final = 30.0
_ATTEMPTS_MAX: Final = 10
_FENCED: Final = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, TransactionAbortable)

T = TypeVar("T")
Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectChange:
    """Records to write to the config topic, and the answer to the request."""

    records: Sequence[ConnectRecord]
    answer: Any = None


class ConnectStore:
    """The state of a worker group. Belongs to one event loop."""

    def __init__(self, file: WorkerFile, *, on_record: Callable[[ConnectRecord], None]) -> None:
        """`on_record` is called for each record of the config topic after the start."""
        self._file = file
        self._settings = file.settings
        self._client: dict[str, object] = {
            **file.client,
            "client.id": f"connect-{file.settings.group_id}",
        }
        self._on_record = on_record
        self.state = ConnectState()
        self._consumer: Consumer | None = None
        self._offsets_consumer: Consumer | None = None
        self._config_producer: Producer | None = None
        self._status_producer: Producer | None = None
        self._following: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._is_loaded = False
        self.cluster_id = ""

    @property
    def config_partition(self) -> TopicPartition:
        return TopicPartition(self._settings.config_storage_topic, 0)

    @property
    def is_loaded(self) -> bool:
        return self._is_loaded

    async def start(self) -> None:
        """Create missing topics and read all of them to their ends."""
        try:
            async with asyncio.timeout(_START_S):
                partitions = await self._create_topics()
                self._consumer = self._new_consumer()
                self._offsets_consumer = self._new_consumer()
                self._consumer.assign(partitions)
                self._consumer.seek_to_beginning()
                self._following = asyncio.create_task(self._follow(self._consumer))
                await self._catch_up(partitions)
                self._is_loaded = True
        except TimeoutError as error:
            raise KafkaError(f"could not read the worker's topics within {_START_S:.0f} s") from (
                error
            )

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        await self._drop_producer()
        await self._drop_status_producer()
        for consumer in (self._consumer, self._offsets_consumer):
            if consumer is not None:
                await consumer.close(0)

    # Writing.

    async def change(self, decide: Callable[[ConnectState], ConnectChange]) -> Any:
        """Decide on the newest configs, write, and read back. Raises `ConnectRestError`."""
        try:
            async with asyncio.timeout(_WRITE_S), self._writing:
                for _ in range(_ATTEMPTS_MAX):
                    try:
                        return await self._attempt(decide)
                    except _FENCED:
                        log.info("Write fenced by another worker, deciding again")
        except TimeoutError as error:
            raise ConnectRestError(500, "Request timed out: the config topic is slow") from error
        except KafkaError as error:
            log.warning("Write failed: topic=%s error=%s", self.config_partition.topic, error)
            raise ConnectRestError(500, f"Cannot write the config topic: {error}") from error
        raise ConnectRestError(409, "Other workers have written each time; try again")

    async def _attempt(self, decide: Callable[[ConnectState], ConnectChange]) -> Any:
        is_producer_usable = False
        try:
            producer = await self._own_producer()
            await self._catch_up([self.config_partition])
            decision = decide(self.state)
            if decision.records:
                await producer.begin_transaction()
                for each in decision.records:
                    key, value = encode_record(each)
                    await producer.send(self.config_partition.topic, value, key=key, partition=0)
                await producer.commit_transaction()
                await self._catch_up([self.config_partition])
            is_producer_usable = True
            return decision.answer
        except ConnectRestError:
            is_producer_usable = True
            raise
        finally:
            if not is_producer_usable:
                await self._drop_producer()

    async def claim_statuses(self) -> None:
        """Become the only worker that writes statuses."""
        await self._drop_status_producer()
        producer = Producer(
            self._client,
            transactional_id=f"connect-status-{self._settings.group_id}",
            linger_ms=0,
        )
        self._status_producer = producer
        await producer.init_transactions()

    async def put_statuses(self, records: Sequence[ConnectRecord]) -> bool:
        """Write records of the status topic; False if another worker has claimed them."""
        producer = self._status_producer
        if producer is None:
            return True
        try:
            await producer.begin_transaction()
            await self._send_statuses(producer, records)
            await producer.commit_transaction()
        except _FENCED:
            log.info("Statuses are another worker's now: group=%s", self._settings.group_id)
            await self._drop_status_producer()
            return False
        return True

    async def forget_topics(self, records: Sequence[ConnectRecord]) -> None:
        """Reset the list of topics of a connector; any worker may."""
        async with Producer(self._client, linger_ms=0) as producer:
            await self._send_statuses(producer, records)
            await producer.flush(_WRITE_S)

    async def _send_statuses(self, producer: Producer, records: Sequence[ConnectRecord]) -> None:
        for each in records:
            key, value = encode_record(each)
            await producer.send(self._settings.status_storage_topic, value, key=key)

    async def _drop_status_producer(self) -> None:
        producer, self._status_producer = self._status_producer, None
        if producer is not None:
            with suppress(KafkaError):
                await producer.close(_BACKOFF_S)

    async def put_offsets(
        self, transactional_id: str, decide: Callable[[ConnectState], Sequence[OffsetRecord]]
    ) -> None:
        """Fence a connector's task and write its offsets in a transaction."""
        topic = self._settings.offset_storage_topic
        async with asyncio.timeout(_WRITE_S), self._writing:
            producer = Producer(self._client, transactional_id=transactional_id, linger_ms=0)
            try:
                await producer.init_transactions()
                partitions = await self._partitions(topic)
                await self._catch_up(partitions)
                await producer.begin_transaction()
                for each in decide(self.state):
                    key, value = encode_record(each)
                    await producer.send(topic, value, key=key)
                await producer.commit_transaction()
                await self._catch_up(partitions)
            finally:
                with suppress(KafkaError):
                    await producer.close(_BACKOFF_S)

    def new_admin(self) -> Admin:
        return Admin(self._client)

    async def _own_producer(self) -> Producer:
        if self._config_producer is None:
            self._config_producer = Producer(
                self._client,
                # Kafka Connect's, for the leader of a group.
                transactional_id=f"connect-cluster-{self._settings.group_id}",
                linger_ms=0,
                max_block_ms=round(_WRITE_S * 1000),
            )
            await self._config_producer.init_transactions()
        return self._config_producer

    async def _drop_producer(self) -> None:
        producer, self._config_producer = self._config_producer, None
        if producer is not None:
            with suppress(KafkaError):
                await producer.close(0)

    # Reading.

    async def _create_topics(self) -> list[TopicPartition]:
        settings = self._settings
        wanted = (
            (settings.config_storage_topic, 1, settings.config_storage_replication_factor),
            (
                settings.offset_storage_topic,
                settings.offset_storage_partitions,
                settings.offset_storage_replication_factor,
            ),
            (
                settings.status_storage_topic,
                settings.status_storage_partitions,
                settings.status_storage_replication_factor,
            ),
        )
        async with Admin(self._client) as admin:
            cluster = await admin.describe_cluster()
            self.cluster_id = cluster.cluster_id
            for topic, partitions, factor in wanted:
                with suppress(TopicAlreadyExists):
                    await admin.create_topic(
                        topic,
                        partitions=partitions,
                        replication_factor=min(factor, len(cluster.brokers)),
                        configs={"cleanup.policy": "compact"},
                    )
            topics = [topic for topic, _, _ in wanted]
            described = await admin.describe_topics(topics)
            resources = [ConfigResource.topic(topic) for topic in topics]
            configs = await admin.describe_configs(resources)
        for topic, resource in zip(topics, resources, strict=True):
            if (policy := configs[resource]["cleanup.policy"].value) != "compact":
                raise InvalidSetting(
                    f"topic {topic} must have cleanup.policy=compact, not {policy}, "
                    "which would delete connectors or their offsets"
                )
        if (count := len(described[settings.config_storage_topic].partitions)) != 1:
            raise InvalidSetting(
                f"topic {settings.config_storage_topic} must have one partition, it has {count}"
            )
        return [
            TopicPartition(topic, number)
            for topic in topics
            for number in range(len(described[topic].partitions))
        ]

    def _new_consumer(self) -> Consumer:
        return Consumer(
            self._client,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            exclude_internal_topics=False,
        )

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        assert self._offsets_consumer is not None, "the store was started"
        numbers = await self._offsets_consumer.partitions_for(topic)
        return [TopicPartition(topic, number) for number in numbers]

    async def _follow(self, consumer: Consumer) -> None:
        while True:
            try:
                for record in await consumer.poll(_POLL_S):
                    self._apply(record)
            except HeadwaterError as error:
                log.warning("Read failed: topics=%s error=%s", "storage topics", error)
                await asyncio.sleep(_BACKOFF_S)

    def _apply(self, record: ConsumerRecord) -> None:
        try:
            found = decode_record(record.key, record.value)
        except ValueError as error:
            log.warning(
                "Ignored malformed record: topic=%s offset=%d error=%s",
                record.topic,
                record.offset,
                error,
            )
            return
        if found is None:
            return
        self.state.replay(found)
        if self._is_loaded and record.topic == self.config_partition.topic:
            self._on_record(found)

    async def _catch_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Read everything that is committed now."""
        assert self._offsets_consumer is not None, "the store was started"
        assert self._consumer is not None, "the store was started"
        ends = await self._offsets_consumer.end_offsets(partitions)
        for partition, end in ends.items():
            while await self._consumer.position(partition) < end:
                await asyncio.sleep(_POSITION_CHECK_S)

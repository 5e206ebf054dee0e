"""Read ranges of offsets in whole batches, for callers that keep positions.

Spark plans which offsets a task reads, and a mirror copies batches without decoding them; neither
needs a group, a position or records. Blocking, for one thread at a time. The next response is
fetched while the caller works on the current one.

Note: a response starts with the batch that *contains* the requested offset, and may end beyond the
range. The caller must skip records before `first_offset` and from its own end on. `next_offset`
skips control batches and aborted transactions.
"""

import asyncio
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.fetch.read_committed import (
    PlacedBatch,
    without_aborted,
    without_control,
)
from headwater.client.consumer.offset_requests import OffsetAndTimestamp, OffsetRequests
from headwater.client.error_messages import meaning
from headwater.client.errors import (
    ClientClosed,
    KafkaError,
    KafkaTimeout,
    LeaderNotAvailable,
    UnknownServerError,
    error_for,
)
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.client.network.cluster_client import ClusterClient
from headwater.client.network.cluster_metadata import NO_NODE, PartitionView
from headwater.client.network.loop_thread import LoopThread
from headwater.client.settings import read_settings
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicPartition
from headwater.network.system_clock import SystemClock, SystemRandom
from headwater.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headwater.records.batch_header import LENGTH_END, BatchHeader
from headwater.records.kernel import scan

_NEWEST_WITHOUT_IDS: Final = 12
_SESSIONLESS_EPOCH: Final = -1
_SLACK_MS: Final = 5_000
_CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatches:
    """The part of a range in one response: bytes, and positions of batches in them."""

    data: bytes
    batches: tuple[PlacedBatch, ...]
    # Records before it were not requested.
    first_offset: int
    # The offset to continue at.
    next_offset: int


class _Answer(NamedTuple):
    data: bytes
    aborted: tuple[AbortedTransaction, ...]


class OffsetRangeReader:
    """Reads ranges of offsets. A context manager."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        """Takes consumer settings; group settings have no effect."""
        self._settings = read_settings(ConsumerSettings, settings, keywords)
        self._clock = SystemClock()
        self._thread = LoopThread("headwater-range-reader")
        self._cluster = self._thread.run(self._connect())
        self._offsets = OffsetRequests(
            self._cluster, is_committed_only=self._settings.is_committed_only
        )
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        # If the background thread is gone, the connections end with the process.
        with suppress(ClientClosed, KafkaTimeout):
            self._thread.run(self._disconnect(), timeout_s=_CLOSE_S)
        self._thread.stop(timeout_s=_CLOSE_S)

    def topics(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Partition counts of these topics, or of all except internal ones.

        Raises `UnknownTopicOrPartition` or another error for a named topic.
        """
        wanted = None if names is None else tuple(names)
        return self._thread.run(self._topics(wanted))

    def offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after each timestamp; -1 is the end, -2 the beginning."""
        deadline_ms = self._deadline_ms()
        return self._thread.run(self._offsets.listed(timestamps, deadline_ms=deadline_ms))

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of a group; waits for pending transactions."""
        deadline_ms = self._deadline_ms()
        return self._thread.run(
            self._offsets.committed(
                group_id, list(partitions), deadline_ms=deadline_ms, require_stable=True
            )
        )

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit for a group without members."""
        deadline_ms = self._deadline_ms()
        self._thread.run(self._offsets.commit(group_id, offsets, deadline_ms=deadline_ms))

    def read(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        timeout_ms: int | None = None,
        first_fetch_bytes: int | None = None,
    ) -> Generator[FetchedBatches, None, None]:
        """All batches with records from `start` and before `end`, which must exist.

        `timeout_ms` limits the wait for each response with data. With `first_fetch_bytes`,
        responses start with this size and double up to `max.partition.fetch.bytes`, for callers
        that may stop early. Raises `OffsetOutOfRange` if the log starts later, `KafkaTimeout` if no
        data arrives.
        """
        limit_ms = self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        size = first_fetch_bytes or self._settings.max_partition_fetch_bytes
        coming = self._begin(partition, start, limit_ms, size) if start < end else None
        offset = start
        while coming is not None:
            answer = _result(coming)
            found = self._placed(answer, offset)
            offset = found.next_offset
            size *= 2
            coming = self._begin(partition, offset, limit_ms, size) if offset < end else None
            try:
                yield found
            except GeneratorExit:
                if coming is not None:
                    coming.cancel()
                raise

    # On the loop's thread.

    async def _connect(self) -> ClusterClient:
        return ClusterClient(
            asyncio.get_running_loop(), self._settings, self._clock, SystemRandom()
        )

    async def _disconnect(self) -> None:
        self._cluster.close()

    async def _topics(self, names: tuple[str, ...] | None) -> dict[str, int]:
        wanted = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        # Auto creation would hide a misspelt topic name.
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        async def attempt() -> dict[str, int]:
            node_id = self._cluster.least_loaded()
            response = await self._cluster.call(node_id, request, MetadataResponse)
            return {
                each.name: len(each.partitions)
                for each in response.topics
                if each.name and _is_readable(each, is_named=names is not None)
            }

        return await self._cluster.retrying.until(
            self._deadline_ms(),
            attempt,
            is_retriable=lambda error: (
                error.is_retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ),
        )

    async def _fetch(
        self, partition: TopicPartition, offset: int, limit_ms: int, size: int
    ) -> _Answer:
        """The next response with data."""
        deadline_ms = self._clock.steady_ms() + limit_ms

        async def attempt() -> _Answer:
            while True:
                answer = await self._ask(partition, offset, deadline_ms, size)
                if answer.data:
                    return answer

        return await self._cluster.retrying.until(deadline_ms, attempt)

    async def _ask(
        self, partition: TopicPartition, offset: int, deadline_ms: int, size: int
    ) -> _Answer:
        view = await self._leader(partition, deadline_ms)
        topic_id = self._cluster.metadata.topics[partition.topic].topic_id
        request = FetchRequest(
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=int(self._settings.is_committed_only),
            session_id=0,
            session_epoch=_SESSIONLESS_EPOCH,
            # Without a rack, so that the leader returns records instead of a preferred replica.
            rack_id="",
            topics=(
                FetchTopic(
                    topic=partition.topic,
                    topic_id=topic_id,
                    partitions=(
                        FetchPartition(
                            partition=partition.partition,
                            current_leader_epoch=view.leader_epoch,
                            fetch_offset=offset,
                            partition_max_bytes=min(size, self._settings.max_partition_fetch_bytes),
                        ),
                    ),
                ),
            ),
        )
        arrived: asyncio.Future[_Answer] = self._cluster.loop.create_future()

        def on_response(response: FetchResponse) -> None:
            if arrived.done():
                return
            outcome = _copied(partition, response)
            if isinstance(outcome, KafkaError):
                arrived.set_exception(outcome)
            else:
                arrived.set_result(outcome)

        def on_failure(error: KafkaError) -> None:
            if not arrived.done():
                arrived.set_exception(error)

        wait_ms = self._settings.fetch_max_wait_ms + _SLACK_MS
        self._cluster.connection(view.leader_id).send_request(
            request,
            on_response,
            on_failure,
            timeout_ms=max(self._settings.request_timeout_ms, wait_ms),
            newest=_NEWEST_WITHOUT_IDS if topic_id == NO_TOPIC_ID else None,
        )
        try:
            return await arrived
        except KafkaError as error:
            if error.is_retriable:
                self._cluster.request_metadata_update()
            raise

    async def _leader(self, partition: TopicPartition, deadline_ms: int) -> PartitionView:
        await self._cluster.topic(partition.topic, deadline_ms=deadline_ms)
        view = self._cluster.metadata.partition(*partition)
        if view is None or view.leader_id == NO_NODE:
            self._cluster.request_metadata_update()
            raise LeaderNotAvailable(f"{partition} has no leader or does not exist")
        return view

    # On the caller's thread.

    def _begin(
        self, partition: TopicPartition, offset: int, limit_ms: int, size: int
    ) -> Future[_Answer]:
        work = self._fetch(partition, offset, limit_ms, size)
        return asyncio.run_coroutine_threadsafe(work, self._thread.loop)

    def _placed(self, answer: _Answer, offset: int) -> FetchedBatches:
        headers, _ = scan(answer.data, 0, len(answer.data))
        if not headers:
            raise error_for(
                ErrorCode.MESSAGE_TOO_LARGE, f"the batch at offset {offset} exceeds the response"
            )
        placed = list(_positions(headers))
        visible = (
            without_aborted(answer.data, placed, answer.aborted)
            if self._settings.is_committed_only
            else without_control(placed)
        )
        return FetchedBatches(
            data=answer.data,
            batches=tuple(visible),
            first_offset=offset,
            next_offset=max(headers[-1].next_offset, offset),
        )

    def _deadline_ms(self) -> int:
        return self._clock.steady_ms() + self._settings.default_api_timeout_ms


def _result(coming: "Future[_Answer]") -> _Answer:
    try:
        return coming.result()
    except BaseException:
        coming.cancel()
        raise


def _copied(partition: TopicPartition, response: FetchResponse) -> _Answer | KafkaError:
    """Copy the data out of the connection's buffer; return an error if there is one."""
    if response.error_code is not ErrorCode.NONE:
        return error_for(response.error_code, f"{partition}: {meaning(response.error_code)}")
    for topic in response.responses:
        for each in topic.partitions:
            if each.partition_index != partition.partition:
                continue
            if each.error_code is not ErrorCode.NONE:
                return error_for(each.error_code, f"{partition}: {meaning(each.error_code)}")
            records: Any = each.records
            return _Answer(bytes(records or b""), tuple(each.aborted_transactions or ()))
    return UnknownServerError(f"{partition} is missing from the response")


def _is_readable(topic: MetadataResponseTopic, *, is_named: bool) -> bool:
    """Whether to list a topic. Raises the error of a topic that was named."""
    if topic.error_code is ErrorCode.NONE:
        return is_named or not topic.is_internal
    if is_named:
        raise error_for(topic.error_code, f"topic {topic.name}: {meaning(topic.error_code)}")
    return False


def _positions(headers: Iterable[BatchHeader]) -> Iterator[PlacedBatch]:
    position = 0
    for header in headers:
        yield position, header
        position += LENGTH_END + header.length

"""Fetch assigned partitions in the background: one Fetch in flight per broker.

A partition is fetched while at most `max.partition.fetch.bytes` of it are buffered, and nothing is
fetched while `fetch.max.bytes` are buffered in total. So the buffer is bounded by that plus one
response per broker.

Note: records are not decoded here. Those of a large response are not even copied: they keep the
memory of the receive buffer.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, assert_never

from headwater.client.consumer.auto_offset_reset import OutOfRangeAction, on_offset_out_of_range
from headwater.client.consumer.consumer_metrics import ConsumerMetrics
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.fetch.completed_fetch import CompletedFetch, Reading
from headwater.client.consumer.fetch.fetch_errors import FetchErrors
from headwater.client.consumer.fetch.fetch_session import (
    NEWEST_WITHOUT_IDS,
    FetchPosition,
    FetchSessionHandler,
    SessionRequest,
)
from headwater.client.consumer.subscription_state import SubscriptionState, TopicPartitionState
from headwater.client.error_messages import meaning
from headwater.client.errors import KafkaError, error_for, from_failure
from headwater.client.network.broker_connection import BrokerConnection
from headwater.client.network.cluster_client import ClusterClient
from headwater.client.network.cluster_metadata import NO_NODE, PartitionView
from headwater.client.network.leader_hints import LeaderHint, learn_leaders
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

_ROLE = "fetch"
# Below this size copying is cheaper than giving up the receive buffer.
_KEPT_FROM_BYTES = 131_072


class _Requested(NamedTuple):
    token: int
    fetch_offset: int


class Fetcher:
    """Fetches on the loop's thread; calls `arrived` when there is data."""

    def __init__(
        self,
        cluster: ClusterClient,
        state: SubscriptionState,
        settings: ConsumerSettings,
        *,
        fetch_errors: FetchErrors,
        metrics: ConsumerMetrics,
        arrived: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._state = state
        self._settings = settings
        self._reset_strategy = settings.reset_strategy
        self._fetch_errors = fetch_errors
        self._metrics = metrics
        self._arrived = arrived
        self._reading = Reading(
            is_committed_only=settings.is_committed_only,
            checks_crc=settings.check_crcs,
            unpacked_max_bytes=settings.headwater_unpacked_max_bytes,
        )
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._in_flight: set[int] = set()
        self._names: dict[TopicId, str] = {}
        self._is_closed = False
        self.data: deque[CompletedFetch] = deque()
        self.buffered_bytes = 0
        self._partition_max_bytes = settings.max_partition_fetch_bytes

    def pump(self) -> None:
        """Send all requests that can be sent now."""
        if self._is_closed or self.buffered_bytes >= max(self._settings.fetch_max_bytes, 1):
            return
        for node_id, wanted in self._plan().items():
            self._fetch(node_id, wanted)

    def expect_tables(self) -> None:
        """Use larger fetches, because the application takes whole tables."""
        self._partition_max_bytes = max(
            self._settings.max_partition_fetch_bytes, self._settings.headwater_table_fetch_bytes
        )

    def drop(self, data: CompletedFetch) -> None:
        """Account for data that was taken or is obsolete."""
        self.buffered_bytes -= data.size_bytes
        state = self._state.state_for(data.partition, data.token)
        if state is not None:
            state.buffered_bytes -= data.size_bytes

    def restore(self, data: CompletedFetch) -> None:
        """Put data back to the front of the buffer."""
        self.data.appendleft(data)
        self.buffered_bytes += data.size_bytes
        state = self._state.state_for(data.partition, data.token)
        if state is not None:
            state.buffered_bytes += data.size_bytes

    def close(self) -> None:
        """Close the fetch sessions without waiting for responses."""
        self._is_closed = True
        for node_id, session in self._sessions.items():
            last = None if node_id in self._in_flight else session.closing()
            if last is not None:
                try:
                    connection = self._cluster.connection(node_id, _ROLE)
                except KafkaError:
                    continue
                if connection.may_send:
                    connection.send_request(self._request(last), lambda _: None, lambda _: None)

    # Sending requests.

    def _plan(self) -> dict[int, dict[TopicPartition, FetchPosition]]:
        now_ms = self._cluster.clock.steady_ms()
        limit_bytes = max(self._partition_max_bytes, 1)
        plan: dict[int, dict[TopicPartition, FetchPosition]] = {}
        for partition, state in self._state.partitions.items():
            if not state.may_fetch(now_ms) or state.buffered_bytes > limit_bytes:
                continue
            view = self._cluster.metadata.partition(*partition)
            if view is None or view.leader_id not in self._cluster.metadata.brokers:
                # No leader, or one that is not among the known brokers: refresh the metadata.
                self._cluster.use_topic(partition.topic)
                self._cluster.request_metadata_update()
                continue
            node_id = self._node_for(state, view, now_ms)
            if node_id not in self._in_flight:
                plan.setdefault(node_id, {})[partition] = self._want(partition, state, view)
        return plan

    def _node_for(self, state: TopicPartitionState, view: PartitionView, now_ms: int) -> int:
        """The preferred read replica (KIP-392), else the leader."""
        if state.read_replica != NO_NODE:
            is_known = state.read_replica in self._cluster.metadata.brokers
            if is_known and now_ms < state.read_replica_until_ms:
                return state.read_replica
            state.read_replica = NO_NODE
        return view.leader_id

    def _want(
        self, partition: TopicPartition, state: TopicPartitionState, view: PartitionView
    ) -> FetchPosition:
        topic_id = self._cluster.metadata.topics[partition.topic].topic_id
        if topic_id != NO_TOPIC_ID:
            self._names[topic_id] = partition.topic
        return FetchPosition(
            topic_id,
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=view.leader_epoch,
                fetch_offset=state.fetch_offset,
                partition_max_bytes=self._partition_max_bytes,
            ),
        )

    def _fetch(self, node_id: int, wanted: dict[TopicPartition, FetchPosition]) -> None:
        session = self._sessions.setdefault(node_id, FetchSessionHandler())
        request = session.request(wanted)
        requested = {
            partition: _Requested(
                self._state.partitions[partition].token, want.partition.fetch_offset
            )
            for partition, want in wanted.items()
        }
        self._in_flight.add(node_id)
        sent_ms = self._cluster.clock.steady_ms()
        connection = self._cluster.connection(node_id, _ROLE)
        connection.send_request(
            self._request(request),
            lambda response: self._on_response(node_id, requested, sent_ms, response, connection),
            lambda error: self._on_failure(node_id, requested, error),
            # The broker may hold the request for fetch.max.wait.ms.
            timeout_ms=self._settings.request_timeout_ms + self._settings.fetch_max_wait_ms,
            newest=None if request.uses_ids else NEWEST_WITHOUT_IDS,
        )

    def _request(self, request: SessionRequest) -> FetchRequest:
        settings = self._settings
        return FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(settings.is_committed_only),
            session_id=request.session_id,
            session_epoch=request.epoch,
            topics=request.topics,
            forgotten_topics_data=request.forgotten,
            rack_id=settings.client_rack,
        )

    # Handling responses.

    def _on_response(
        self,
        node_id: int,
        requested: dict[TopicPartition, _Requested],
        sent_ms: int,
        response: FetchResponse,
        connection: BrokerConnection,
    ) -> None:
        self._in_flight.discard(node_id)
        self._sessions[node_id].handle_response(response.error_code, response.session_id)
        if self._is_closed:
            return
        if response.error_code is not ErrorCode.NONE:
            self._on_error(requested, response.error_code)
            return
        self._learn_leaders(response)
        size_bytes = _records_bytes(response)
        self._metrics.fetched(
            size_bytes,
            took_ms=self._cluster.clock.steady_ms() - sent_ms,
            throttle_ms=response.throttle_time_ms,
        )
        is_kept = size_bytes >= _KEPT_FROM_BYTES and connection.keep_answer()
        for topic in response.responses:
            name = topic.topic or self._names.get(topic.topic_id)
            for each in topic.partitions:
                if name is not None:
                    partition = TopicPartition(name, each.partition_index)
                    self._on_partition(partition, requested, each, is_kept=is_kept)
        self.pump()
        self._arrived()

    def _on_failure(
        self, node_id: int, requested: dict[TopicPartition, _Requested], error: KafkaError
    ) -> None:
        self._in_flight.discard(node_id)
        self._sessions[node_id].handle_error()
        if self._is_closed:
            return
        for partition, each in requested.items():
            state = self._state.state_for(partition, each.token)
            if state is not None:
                state.read_replica = NO_NODE
                self._retry_later(state)
        if not error.is_retriable:
            self._fetch_errors.add(error)
            self._arrived()
        self._cluster.request_metadata_update()

    def _on_error(self, requested: dict[TopicPartition, _Requested], code: ErrorCode) -> None:
        """The whole request failed. An unknown session is just replaced by a new one."""
        if code not in (
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ):
            for partition, each in requested.items():
                state = self._state.state_for(partition, each.token)
                if state is not None:
                    self._retry_later(state)
            self._cluster.request_metadata_update()
            if not code.is_retriable:
                self._fetch_errors.add(error_for(code, f"fetch: {meaning(code)}"))
                self._arrived()
        self.pump()

    def _on_partition(
        self,
        partition: TopicPartition,
        requested: dict[TopicPartition, _Requested],
        answer: PartitionData,
        *,
        is_kept: bool,
    ) -> None:
        request = requested.get(partition)
        state = None if request is None else self._state.state_for(partition, request.token)
        if request is None or state is None or state.fetch_offset != request.fetch_offset:
            # Obsolete; also if the leader moved and the new one answered before the old one.
            return
        if answer.error_code is not ErrorCode.NONE:
            self._on_partition_error(partition, state, answer.error_code)
            return
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica != NO_NODE:
            state.read_replica = answer.preferred_read_replica
            state.read_replica_until_ms = (
                self._cluster.clock.steady_ms() + self._settings.metadata_max_age_ms
            )
        if isinstance(answer.records, memoryview) and answer.records:
            records = answer.records if is_kept else bytes(answer.records)
            self._take(partition, state, answer, records)

    def _take(
        self,
        partition: TopicPartition,
        state: TopicPartitionState,
        answer: PartitionData,
        records: bytes | memoryview,
    ) -> None:
        try:
            data = CompletedFetch(
                partition,
                state.token,
                records,
                fetch_offset=state.fetch_offset,
                aborted=answer.aborted_transactions or (),
                reading=self._reading,
            )
        except HeadwaterError as error:
            problem = _at(partition, state.fetch_offset, from_failure(error))
            self._fetch_errors.add_about(partition, problem)
            self._retry_later(state)
            return
        if data.end_offset == state.fetch_offset:
            # Not one whole batch; brokers since 0.10.1 always send at least one.
            text = f"{partition}: the batch at offset {state.fetch_offset} exceeds the response"
            self._fetch_errors.add_about(partition, error_for(ErrorCode.MESSAGE_TOO_LARGE, text))
            self._retry_later(state)
            return
        state.fetch_offset, state.fetch_epoch = data.end_offset, data.end_epoch
        state.buffered_bytes += data.size_bytes
        self.buffered_bytes += data.size_bytes
        self.data.append(data)

    def _on_partition_error(
        self, partition: TopicPartition, state: TopicPartitionState, code: ErrorCode
    ) -> None:
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(partition, state)
            return
        self._retry_later(state)
        if code.is_retriable:
            state.read_replica = NO_NODE
            if code.needs_refresh or code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                self._cluster.request_metadata_update()
        elif code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self._fetch_errors.add_about(
                partition, error_for(code, f"{partition}: {meaning(code)}")
            )

    def _out_of_range(self, partition: TopicPartition, state: TopicPartitionState) -> None:
        action = on_offset_out_of_range(
            self._reset_strategy,
            is_from_follower=state.read_replica != NO_NODE,
            has_buffered=state.buffered_bytes > 0,
        )
        match action:
            case OutOfRangeAction.FETCH_FROM_LEADER:
                state.read_replica = NO_NODE
            case OutOfRangeAction.RETRY:
                self._retry_later(state)
            case OutOfRangeAction.RESET:
                self._state.reset(partition, None)
            case OutOfRangeAction.FAIL:
                text = f"offset {state.fetch_offset} of {partition} is out of range"
                error = error_for(ErrorCode.OFFSET_OUT_OF_RANGE, text)
                self._fetch_errors.add_about(partition, error)
                self._retry_later(state)
            case _:
                assert_never(action)

    def _retry_later(self, state: TopicPartitionState) -> None:
        backoff_ms = self._settings.retry_backoff_ms
        state.retry_at_ms = self._cluster.clock.steady_ms() + backoff_ms
        self._cluster.loop.call_later((backoff_ms + 1) / 1000, self.pump)

    def _learn_leaders(self, response: FetchResponse) -> None:
        named = [
            LeaderHint(
                TopicPartition(name, each.partition_index),
                each.current_leader.leader_id,
                each.current_leader.leader_epoch,
            )
            for topic in response.responses
            if (name := topic.topic or self._names.get(topic.topic_id)) is not None
            for each in topic.partitions
            if each.current_leader.leader_id != NO_NODE
        ]
        learn_leaders(self._cluster, named, response.node_endpoints)


def _records_bytes(response: FetchResponse) -> int:
    return sum(
        len(each.records)
        for topic in response.responses
        for each in topic.partitions
        if isinstance(each.records, memoryview)
    )


def _at(partition: TopicPartition, offset: int, error: KafkaError) -> KafkaError:
    return error_for(error.code, f"{partition} at offset {offset}: {error}")

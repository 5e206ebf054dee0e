"""Send batches from the accumulator to the partition leaders, as Kafka's Sender.

All work happens in `pump` on the client's loop, which may be called at any time: by a wake-up, a
timer, a response or new metadata.

Note: a batch that timed out may still be in flight. It is completed for its callers, but its
partition counts it as in flight until the response arrives or the connection closes, because until
then the broker may still write it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from headwater.client.errors import KafkaError, KafkaTimeout, error_for
from headwater.client.network.broker_connection import BrokerConnection
from headwater.client.network.cluster_client import ClusterClient
from headwater.client.network.cluster_metadata import NO_NODE
from headwater.client.network.exponential_backoff import ExponentialBackoff
from headwater.client.producer.partition_queues import PartitionQueue
from headwater.client.producer.produce_request import Sent, produce_request
from headwater.client.producer.produce_response import PartitionAnswer, answers, moved_partitions
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_metrics import ProducerMetrics
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.client.producer.record_accumulator import RecordAccumulator
from headwater.client.producer.record_future import RecordFuture
from headwater.client.producer.transactions.idempotence import Idempotence
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.messages.produce import ProduceResponse

_CALLBACKS_AT_ONCE = 1_000


class Sender:
    """The sender of one producer. Runs on the loop's thread."""

    def __init__(
        self,
        cluster: ClusterClient,
        accumulator: RecordAccumulator,
        settings: ProducerSettings,
        idempotence: Idempotence | None,
    ) -> None:
        self._cluster = cluster
        self._loop = cluster.loop
        self._clock = cluster.clock
        self._accumulator = accumulator
        self._settings = settings
        self._idempotence = idempotence
        self._backoff = ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._callbacks: deque[tuple[RecordFuture, Callable[[RecordFuture], object]]] = deque()
        self._is_calling = False
        self._watchers: list[Callable[[], None]] = []
        self.metrics = ProducerMetrics()
        cluster.on_metadata(self.pump)

    def on_progress(self, watcher: Callable[[], None]) -> None:
        """Call a function whenever batches were completed or taken."""
        self._watchers.append(watcher)

    def pump(self) -> None:
        """Send what can be sent, expire old batches, and set the timer for the rest."""
        if self._cluster.is_closed:
            return
        now_ms = self._clock.steady_ms()
        accumulator = self._accumulator
        with accumulator.lock:
            expired = accumulator.expired_locked(now_ms, self._settings.delivery_timeout_ms)
        for batch in expired:
            self._give_up(accumulator.queue_of(batch), batch, self._timeout_of(batch))
        if self._idempotence is not None:
            self._idempotence.ensure_producer_id(self.pump)
        with accumulator.lock:
            accumulator.collect_locked(now_ms)
            by_leader = self._by_leader_locked(now_ms)
        if self._idempotence is not None:
            # Batches that were held back have registered their partitions just now.
            self._idempotence.add_partitions(self.pump)
        for leader_id, queues in by_leader.items():
            self._send_to(leader_id, queues, now_ms)
        self._arm(now_ms)

    def fail_all(self, error: KafkaError) -> None:
        """Fail all batches: the producer is closed or has a fatal error."""
        accumulator = self._accumulator
        with accumulator.lock:
            left = list(accumulator.incomplete)
        for batch in left:
            self._give_up(accumulator.queue_of(batch), batch, error)

    def drop_unsent(self, error: KafkaError) -> None:
        """Fail batches that were never sent, so that no broker can have them."""
        accumulator = self._accumulator
        with accumulator.lock:
            unsent = [batch for batch in accumulator.incomplete if not batch.has_sequence]
        for batch in unsent:
            self._give_up(accumulator.queue_of(batch), batch, error)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Sending.

    def _by_leader_locked(self, now_ms: int) -> dict[int, list[PartitionQueue]]:
        by_leader: dict[int, list[PartitionQueue]] = {}
        metadata = self._cluster.metadata
        is_leader_missing = False
        used: dict[str, None] = {}
        for queue in list(self._accumulator.ready):
            used[queue.name] = None
            if not self._accumulator.is_sendable_locked(queue, now_ms) or self._is_held(queue):
                continue
            view = metadata.partition(queue.name, queue.partition)
            if view is None or view.leader_id == NO_NODE or view.leader_id not in metadata.brokers:
                is_leader_missing = True
            else:
                by_leader.setdefault(view.leader_id, []).append(queue)
        # Refresh metadata of used topics; others are dropped after metadata.max.idle.ms.
        for topic in used:
            self._cluster.use_topic(topic)
        if is_leader_missing:
            self._cluster.request_metadata_update()
        return by_leader

    def _is_held(self, queue: PartitionQueue) -> bool:
        """Whether the order of a partition forbids sending its next batch now."""
        if self._idempotence is not None:
            return not self._idempotence.may_send(queue)
        is_ordered = self._settings.max_in_flight_requests_per_connection == 1
        return is_ordered and queue.in_flight_count > 0

    def _send_to(self, leader_id: int, queues: list[PartitionQueue], now_ms: int) -> None:
        connection = self._cluster.connection(leader_id)
        if connection.on_change is None:
            connection.on_change = self.pump
        if not connection.is_ready:
            if connection.is_failing:
                # Another broker may have become leader.
                self._cluster.request_metadata_update()
            connection.connect()
            return
        while queues and connection.may_send:
            sent = self._drain(queues)
            self._produce(connection, sent, now_ms)
            taken = {each.queue for each in sent}
            with self._accumulator.lock:
                queues = [
                    queue
                    for queue in sorted(queues, key=taken.__contains__)
                    if queue in self._accumulator.ready
                    and self._accumulator.is_sendable_locked(queue, now_ms)
                    and not self._is_held(queue)
                ]

    def _drain(self, queues: list[PartitionQueue]) -> list[Sent]:
        """Take at most one batch per partition, and no more than fit one request."""
        left_bytes = self._settings.max_request_size
        sent: list[Sent] = []
        with self._accumulator.lock:
            for queue in queues:
                size_bytes = queue.batches[0].size_bytes
                if sent and size_bytes > left_bytes:
                    continue
                batch = self._accumulator.take_locked(queue)
                if self._idempotence is not None:
                    self._idempotence.assign(queue, batch)
                left_bytes -= size_bytes
                topic_id = self._topic_id(queue.name)
                sent.append(Sent(queue=queue, batch=batch, topic_id=topic_id))
            self._accumulator.notify_locked()
        for watcher in self._watchers:
            watcher()
        return sent

    def _produce(self, connection: BrokerConnection, sent: list[Sent], now_ms: int) -> None:
        request, newest = produce_request(sent, self._settings)
        if self._idempotence is not None:
            newest = self._idempotence.newest_produce(newest)
        self.metrics.request_total += 1
        self.metrics.batch_send_total += len(sent)
        self.metrics.record_send_total += sum(each.batch.count for each in sent)
        self.metrics.outgoing_byte_total += sum(each.batch.size_bytes for each in sent)
        if request.acks == 0:
            failures: list[KafkaError] = []
            connection.send_without_response(request, failures.append, newest=newest)
            for each in sent:
                self._came_back(each)
                self._complete(each, None)
            return

        def then(response: ProduceResponse) -> None:
            self._on_response(sent, response, now_ms)

        def on_error(error: KafkaError) -> None:
            self._on_failure(sent, error)

        connection.send_request(request, then, on_error, newest=newest)

    # Handling responses.

    def _on_response(self, sent: Sequence[Sent], response: ProduceResponse, sent_ms: int) -> None:
        now_ms = self._clock.steady_ms()
        self.metrics.request_latency_total_ms += now_ms - sent_ms
        self.metrics.request_latency_max_ms = max(
            self.metrics.request_latency_max_ms, now_ms - sent_ms
        )
        found = answers(response)
        moved = moved_partitions(self._cluster, response)
        for each in sent:
            batch = each.batch
            self._came_back(each)
            answer = found.get((batch.topic, batch.partition)) or found.get(
                (each.topic_id, batch.partition)
            )
            if answer is None:
                missing = error_for(
                    ErrorCode.NETWORK_EXCEPTION, "the response has no result for a batch"
                )
                self._retry_or_give_up(each, missing, now_ms)
            else:
                self._on_result(
                    each, answer, now_ms, is_moved=(batch.topic, batch.partition) in moved
                )
        # The connection reports next that it has room, which calls `pump`.

    def _topic_id(self, topic: str) -> TopicId:
        view = self._cluster.metadata.topics.get(topic)
        return NO_TOPIC_ID if view is None else view.topic_id

    def _on_failure(self, sent: Sequence[Sent], error: KafkaError) -> None:
        now_ms = self._clock.steady_ms()
        for each in sent:
            self._came_back(each)
            self._retry_or_give_up(each, error, now_ms)
        if error.code.needs_refresh:
            self._cluster.request_metadata_update()
        self.pump()

    def _came_back(self, sent: Sent) -> None:
        self._accumulator.remove_in_flight(sent.queue)

    def _on_result(
        self, sent: Sent, answer: PartitionAnswer, now_ms: int, *, is_moved: bool
    ) -> None:
        batch, code = sent.batch, answer.code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if not batch.is_done:
                if self._idempotence is not None:
                    self._idempotence.acked(sent.queue, batch)
                self._complete(sent, None, answer.base_offset, answer.append_time_ms)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.is_done:
            self._split(sent)
        else:
            error = error_for(code, answer.message)
            if code.needs_refresh and not is_moved:
                self._cluster.request_metadata_update()
            self._retry_or_give_up(sent, error, now_ms, is_moved=is_moved)

    def _retry_or_give_up(
        self, sent: Sent, error: KafkaError, now_ms: int, *, is_moved: bool = False
    ) -> None:
        queue, batch = sent.queue, sent.batch
        if batch.is_done:
            return
        may_repeat = error.is_retriable or (
            self._idempotence is not None and self._idempotence.may_retry(queue, batch, error)
        )
        if not may_repeat or batch.attempts >= self._settings.retries:
            self._give_up(queue, batch, error)
            return
        batch.attempts += 1
        self.metrics.record_retry_total += batch.count
        wait_ms = 0 if is_moved else self._backoff.after(batch.attempts, self._cluster.rng)
        with self._accumulator.lock:
            self._accumulator.return_locked(queue, batch, now_ms + wait_ms)

    def _split(self, sent: Sent) -> None:
        """Split a batch that exceeds the broker's limit, and send the parts."""
        batch = sent.batch
        self.metrics.batch_split_total += 1
        parts = batch.split(max(batch.size_bytes // 2, 1))
        with self._accumulator.lock:
            sent.queue.sequences.replaced(batch, parts)
            self._accumulator.replace_locked(sent.queue, batch, parts)

    def _give_up(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        if batch.is_done:
            # Failing an earlier one was fatal for the producer and completed all batches.
            return
        self.metrics.record_error_total += batch.record_count
        if self._idempotence is not None:
            self._idempotence.failed(queue, batch, error)
        if not batch.is_done:
            # Completed already, if its loss was fatal for the producer.
            self._complete(Sent(queue=queue, batch=batch), error)

    def _complete(
        self,
        sent: Sent,
        error: KafkaError | None,
        base_offset: int = -1,
        append_time_ms: int = -1,
    ) -> None:
        accumulator = self._accumulator
        with accumulator.lock:
            accumulator.forget_locked(sent.queue, sent.batch)
            accumulator.notify_locked()
        self._callbacks.extend(sent.batch.complete(error, base_offset, append_time_ms))
        if self._callbacks and not self._is_calling:
            self._is_calling = True
            self._loop.call_soon(self._run_callbacks)
        for watcher in self._watchers:
            watcher()

    def _run_callbacks(self) -> None:
        """Run callbacks in order.

        An exception goes to the loop's handler; the other callbacks still run.
        """
        self._is_calling = False
        left = _CALLBACKS_AT_ONCE
        try:
            while self._callbacks and left:
                left -= 1
                future, callback = self._callbacks.popleft()
                callback(future)
        finally:
            if self._callbacks and not self._is_calling:
                self._is_calling = True
                self._loop.call_soon(self._run_callbacks)

    def _timeout_of(self, batch: ProducerBatch) -> KafkaTimeout:
        return KafkaTimeout(
            f"{batch.record_count} records for {batch.topic}-{batch.partition} were not "
            f"acknowledged within delivery.timeout.ms ({self._settings.delivery_timeout_ms} ms, "
            f"{batch.attempts} retries)"
        )

    # Timer.

    def _arm(self, now_ms: int) -> None:
        """Set the timer for the next deadline, unless it is set to an earlier time."""
        with self._accumulator.lock:
            due_ms = self._accumulator.next_due_ms()
            first = next(iter(self._accumulator.incomplete), None)
        if first is not None:
            expiry_ms = first.created_ms + self._settings.delivery_timeout_ms
            due_ms = expiry_ms if due_ms is None else min(due_ms, expiry_ms)
        if due_ms is None or (self._timer is not None and self._timer_due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = self._loop.call_later(max(due_ms - now_ms, 0) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

"""The sender: takes batches from the accumulator to the leaders of their partitions.

It lives on the client's loop and does everything in `pump`, which may be called at any time: by a
wake-up, by its timer, by an answer, by new metadata. What a reader would get wrong: a batch that
timed out may still be on the wire. It is settled for its callers then, but its partition counts it
as under way until the answer comes or the connection ends, because until then nobody knows whether
the broker will take it.
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
    """One producer's way out. For the loop's thread."""

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

    def on_settled(self, watcher: Callable[[], None]) -> None:
        """Have a function called whenever batches were settled or taken."""
        self._watchers.append(watcher)

    def pump(self) -> None:
        """Send what can be sent, give up what is too old, and set the timer for the rest."""
        if self._cluster.is_closed:
            return
        now_ms = self._clock.steady_ms()
        accumulator = self._accumulator
        with accumulator.lock:
            expired = accumulator.expired_locked(now_ms, self._settings.delivery_timeout_ms)
        for batch in expired:
            self._give_up(accumulator.queue_of(batch), batch, self._lateness(batch))
        if self._idempotence is not None:
            self._idempotence.heal(self.pump)
        with accumulator.lock:
            accumulator.collect_locked(now_ms)
            by_leader = self._by_leader_locked(now_ms)
        if self._idempotence is not None:
            # What is held back has said just now what it waits for.
            self._idempotence.announce(self.pump)
        for leader_id, queues in by_leader.items():
            self._send_to(leader_id, queues, now_ms)
        self._arm(now_ms)

    def abandon(self, error: KafkaError) -> None:
        """Give up everything: the producer is closed, or can do no more."""
        accumulator = self._accumulator
        with accumulator.lock:
            left = list(accumulator.unsettled)
        for batch in left:
            self._give_up(accumulator.queue_of(batch), batch, error)

    def drop_unsent(self, error: KafkaError) -> None:
        """Give up what has never left, so that no broker can have it."""
        accumulator = self._accumulator
        with accumulator.lock:
            unsent = [batch for batch in accumulator.unsettled if not batch.has_sequence]
        for batch in unsent:
            self._give_up(accumulator.queue_of(batch), batch, error)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Out.

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
        # What is sent to is kept fresh, and what is not for metadata.max.idle.ms is forgotten.
        for topic in used:
            self._cluster.use_topic(topic)
        if is_leader_missing:
            self._cluster.want_refresh()
        return by_leader

    def _is_held(self, queue: PartitionQueue) -> bool:
        """Whether the order of a partition forbids to send its next batch now."""
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
                # Perhaps another broker leads by now.
                self._cluster.want_refresh()
            connection.connect()
            return
        while queues and connection.may_send:
            sent = self._drain(queues)
            self._ask(connection, sent, now_ms)
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
        """At most one batch per partition, and no more than fit one request."""
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
            self._accumulator.tell_locked()
        for watcher in self._watchers:
            watcher()
        return sent

    def _ask(self, connection: BrokerConnection, sent: list[Sent], now_ms: int) -> None:
        request, newest = produce_request(sent, self._settings)
        if self._idempotence is not None:
            newest = self._idempotence.newest_produce(newest)
        self.metrics.request_total += 1
        self.metrics.batch_send_total += len(sent)
        self.metrics.record_send_total += sum(each.batch.count for each in sent)
        self.metrics.outgoing_byte_total += sum(each.batch.size_bytes for each in sent)
        if request.acks == 0:
            failures: list[KafkaError] = []
            connection.tell(request, failures.append, newest=newest)
            for each in sent:
                self._came_back(each)
                self._settle(each, None)
            return

        def then(response: ProduceResponse) -> None:
            self._answered(sent, response, now_ms)

        def otherwise(error: KafkaError) -> None:
            self._failed(sent, error)

        connection.ask(request, then, otherwise, newest=newest)

    # Back.

    def _answered(self, sent: Sequence[Sent], response: ProduceResponse, asked_ms: int) -> None:
        now_ms = self._clock.steady_ms()
        self.metrics.request_latency_total_ms += now_ms - asked_ms
        self.metrics.request_latency_max_ms = max(
            self.metrics.request_latency_max_ms, now_ms - asked_ms
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
                missing = error_for(ErrorCode.NETWORK_EXCEPTION, "the answer leaves a batch out")
                self._retry_or_give_up(each, missing, now_ms)
            else:
                self._judge(each, answer, now_ms, is_moved=(batch.topic, batch.partition) in moved)
        # The connection says next that it has room, and that goes on with the rest.

    def _topic_id(self, topic: str) -> TopicId:
        view = self._cluster.metadata.topics.get(topic)
        return NO_TOPIC_ID if view is None else view.topic_id

    def _failed(self, sent: Sequence[Sent], error: KafkaError) -> None:
        now_ms = self._clock.steady_ms()
        for each in sent:
            self._came_back(each)
            self._retry_or_give_up(each, error, now_ms)
        if error.code.needs_refresh:
            self._cluster.want_refresh()
        self.pump()

    def _came_back(self, sent: Sent) -> None:
        self._accumulator.came_back(sent.queue)

    def _judge(self, sent: Sent, answer: PartitionAnswer, now_ms: int, *, is_moved: bool) -> None:
        batch, code = sent.batch, answer.code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if not batch.is_done:
                if self._idempotence is not None:
                    self._idempotence.acked(sent.queue, batch)
                self._settle(sent, None, answer.base_offset, answer.append_time_ms)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.is_done:
            self._split(sent)
        else:
            error = error_for(code, answer.message)
            if code.needs_refresh and not is_moved:
                self._cluster.want_refresh()
            self._retry_or_give_up(sent, error, now_ms, is_moved=is_moved)

    def _retry_or_give_up(
        self, sent: Sent, error: KafkaError, now_ms: int, *, is_moved: bool = False
    ) -> None:
        queue, batch = sent.queue, sent.batch
        if batch.is_done:
            return
        may_repeat = error.is_retriable or (
            self._idempotence is not None and self._idempotence.may_repeat(queue, batch, error)
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
        """The broker's limit is below ours: the same records again, in smaller batches."""
        batch = sent.batch
        self.metrics.batch_split_total += 1
        parts = batch.split(max(batch.size_bytes // 2, 1))
        with self._accumulator.lock:
            sent.queue.sequences.replaced(batch, parts)
            self._accumulator.replace_locked(sent.queue, batch, parts)

    def _give_up(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        if batch.is_done:
            # One of several to give up, and losing the first was the end of the producer.
            return
        self.metrics.record_error_total += batch.record_count
        if self._idempotence is not None:
            self._idempotence.given_up(queue, batch, error)
        if not batch.is_done:
            # It is, if losing it was the end of the producer: then everything was given up.
            self._settle(Sent(queue=queue, batch=batch), error)

    def _settle(
        self,
        sent: Sent,
        error: KafkaError | None,
        base_offset: int = -1,
        append_time_ms: int = -1,
    ) -> None:
        accumulator = self._accumulator
        with accumulator.lock:
            accumulator.forget_locked(sent.queue, sent.batch)
            accumulator.tell_locked()
        self._callbacks.extend(sent.batch.settle(error, base_offset, append_time_ms))
        if self._callbacks and not self._is_calling:
            self._is_calling = True
            self._loop.call_soon(self._call_back)
        for watcher in self._watchers:
            watcher()

    def _call_back(self) -> None:
        """Tell callers, in order. One that raises goes to the loop's handler, and others follow."""
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
                self._loop.call_soon(self._call_back)

    def _lateness(self, batch: ProducerBatch) -> KafkaTimeout:
        return KafkaTimeout(
            f"{batch.record_count} records for {batch.topic}-{batch.partition} were not confirmed "
            f"within delivery.timeout.ms ({self._settings.delivery_timeout_ms} ms, "
            f"{batch.attempts} retries)"
        )

    # Time.

    def _arm(self, now_ms: int) -> None:
        """The timer for the next thing that goes by the clock. One that is set earlier serves."""
        with self._accumulator.lock:
            due_ms = self._accumulator.next_due_ms()
            first = next(iter(self._accumulator.unsettled), None)
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

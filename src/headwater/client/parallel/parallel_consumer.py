"""A consumer with worker threads: ordered by key, commits processed records.

    def brew(record): ...

    with ParallelConsumer({"bootstrap.servers": "localhost:9092", "group.id": "brewers"},
                          workers=8) as consumer:
        consumer.subscribe(["tea"])
        consumer.run(brew)

`run` polls and distributes records until `stop` is called.

Note: records are processed at least once. Records that were processed but not committed when a
process dies are processed again. A `Deduplicator`, made durable before each commit, avoids that.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from headwater.client.argument_checks import whole_number
from headwater.client.consumer.blocking_consumer import Consumer
from headwater.client.consumer.subscription import RebalanceListener
from headwater.client.errors import (
    ClientClosed,
    CommitFailed,
    IllegalState,
    KafkaError,
    RebalanceInProgress,
)
from headwater.client.parallel.commit_progress import CommitProgress
from headwater.client.parallel.deduplicator import Deduplicator
from headwater.client.parallel.worker_lanes import Job, WorkerLanes
from headwater.client.settings import mapping
from headwater.common.ids import TopicPartition
from headwater.network.system_clock import SystemClock
from headwater.records.consumer_record import ConsumerRecord

Handle = Callable[[ConsumerRecord], object]
OnFailure = Callable[[ConsumerRecord, Exception], object]

_POLL_S: Final = 0.1
_LOG: Final = logging.getLogger(__name__)


class ParallelConsumer:
    """A consumer with worker threads: `subscribe`, `run`, `stop` and `close`.

    `max_pending` bounds the records that are polled but unfinished; beyond it partitions are
    paused. A failed record is retried `retries` times and then passed to `on_failure`; when that
    returns, the record counts as processed. Without `on_failure`, `run` raises the handler's
    exception, and the record is not committed.

    With a `deduplicator`, records that were processed before are skipped.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        workers: int = 8,
        max_pending: int = 10_000,
        retries: int = 3,
        retry_backoff_ms: int = 100,
        commit_interval_ms: int = 1_000,
        drain_timeout_ms: int = 30_000,
        on_failure: OnFailure | None = None,
        deduplicator: Deduplicator | None = None,
    ) -> None:
        whole_number(workers, "workers", least=1)
        whole_number(max_pending, "max_pending", least=1)
        for name, given in (
            ("retries", retries),
            ("retry_backoff_ms", retry_backoff_ms),
            ("commit_interval_ms", commit_interval_ms),
            ("drain_timeout_ms", drain_timeout_ms),
        ):
            whole_number(given, name, least=0)
        self._consumer = Consumer({**mapping(settings), "enable.auto.commit": False})
        self._workers = workers
        self._max_pending = max_pending
        self._retries = retries
        self._retry_backoff_s = retry_backoff_ms / 1000
        self._commit_interval_ms = commit_interval_ms
        self._drain_timeout_s = drain_timeout_ms / 1000
        self._on_failure = on_failure
        self._once = None if deduplicator is None else DeduplicatedWork(deduplicator)
        self._clock = SystemClock()
        self._progress = CommitProgress()
        self._changed = threading.Condition()
        self._leaving: set[TopicPartition] = set()
        self._working: dict[TopicPartition, int] = {}
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._has_begun = False
        self._is_closed = False

    def __enter__(self) -> Self:
        self._consumer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def subscribe(self, topics: Iterable[str] | None = None, *, pattern: str | None = None) -> None:
        """Subscribe to topics as a member of the group."""
        self._consumer.subscribe(topics, pattern=pattern, listener=_Draining(self))

    def run(self, handle: Handle) -> None:
        """Poll and process records until `stop`. Raises the exception of a handler.

        Can be called once: a second run would skip records that were polled but not started.
        """
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._has_begun:
            raise IllegalState("run can be called only once; create another consumer")
        self._has_begun = True
        lanes = WorkerLanes(self._workers, lambda job: self._work(handle, job))
        try:
            self._hand_out(lanes)
            with self._changed:
                self._changed.wait_for(self._is_idle, self._drain_timeout_s)
        finally:
            lanes.close(self._drain_timeout_s)
            self._commit()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Make `run` finish started records and return. Any thread may call it."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Close the consumer, after `run` has returned."""
        self._is_closed = True
        self._stopping.set()
        self._consumer.close()

    @property
    def pending(self) -> int:
        """The number of records that are polled but unfinished."""
        with self._changed:
            return self._progress.unfinished_count

    # The polling thread.

    def _hand_out(self, lanes: WorkerLanes) -> None:
        commit_at_ms = self._clock.steady_ms() + self._commit_interval_ms
        is_paused = False
        while not self._stopping.is_set():
            is_paused = self._pause_or_resume(is_paused=is_paused)
            for record in self._consumer.poll(_POLL_S):
                partition = TopicPartition(record.topic, record.partition)
                with self._changed:
                    token = self._progress.begin(partition, record.offset)
                lanes.put(Job(record, token))
            if self._clock.steady_ms() >= commit_at_ms:
                commit_at_ms = self._clock.steady_ms() + self._commit_interval_ms
                self._commit()

    def _pause_or_resume(self, *, is_paused: bool) -> bool:
        """Pause or resume partitions; polls continue, and so does group membership."""
        pending = self.pending
        if pending >= self._max_pending:
            # Repeated, because partitions may have been assigned meanwhile.
            self._consumer.pause(self._consumer.assignment())
            return True
        if is_paused and pending <= self._max_pending // 2:
            self._consumer.resume(self._consumer.paused())
            return False
        return is_paused

    def _commit(self) -> None:
        with self._changed:
            offsets = self._progress.to_commit()
        if not offsets:
            return
        if self._once is not None:
            self._once.flush()
        try:
            self._consumer.commit(dict(offsets))
        except (CommitFailed, RebalanceInProgress) as error:
            # The new owners start at the last commit.
            _LOG.info("Commit skipped during rebalance: reason=%s", error)
        except KafkaError as error:
            if not error.is_retriable:
                raise
            _LOG.warning("Commit failed, will be retried: reason=%s", error)
        else:
            with self._changed:
                self._progress.committed(offsets)

    def revoke(self, partitions: list[TopicPartition], *, may_commit: bool) -> None:
        """Revoke partitions: wait for started records, drop queued ones."""
        with self._changed:
            # Queued records are not started any more; the next owner consumes them again.
            self._leaving.update(partitions)
            if may_commit:
                self._changed.wait_for(
                    lambda: not any(self._working.get(each) for each in partitions),
                    self._drain_timeout_s,
                )
        try:
            if may_commit:
                self._commit()
        finally:
            with self._changed:
                for each in partitions:
                    self._progress.remove(each)
                self._leaving.difference_update(partitions)

    def _is_idle(self) -> bool:
        return self._progress.unfinished_count == 0 or self._failure is not None

    # The workers.

    def _work(self, handle: Handle, job: Job) -> None:
        record = job.record
        partition = TopicPartition(record.topic, record.partition)
        with self._changed:
            is_wanted = self._progress.is_wanted(partition, job.token)
            if self._failure is not None or partition in self._leaving or not is_wanted:
                return
            self._working[partition] = self._working.get(partition, 0) + 1
        failure = self._attempt_once(handle, record)
        with self._changed:
            self._working[partition] -= 1
            if failure is None:
                self._progress.finish(partition, record.offset, job.token)
            else:
                self._failure = self._failure or failure
                self._stopping.set()
            self._changed.notify_all()

    def _attempt_once(self, handle: Handle, record: ConsumerRecord) -> BaseException | None:
        if self._once is None:
            return self._attempt(handle, record)
        try:
            with self._once.alone(record) as is_new:
                failure = self._attempt(handle, record) if is_new else None
                if failure is None:
                    self._once.done(record)
                return failure
        except Exception as error:  # noqa: BLE001 - of the user's identity, or of the file
            return error

    def _attempt(self, handle: Handle, record: ConsumerRecord) -> BaseException | None:
        """Call the handler with retries; return the exception if all attempts fail.

        SystemExit and the like end the run: if only the worker thread ended, its queue would
        remain and `run` would wait forever.
        """
        tries = 0
        while True:
            try:
                handle(record)
                return None
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                tries += 1
                if tries > self._retries:
                    return self._hand_over(record, error)
                _LOG.info(
                    "Handler failed: topic=%s partition=%d offset=%d attempt=%d error=%r",
                    record.topic, record.partition, record.offset, tries, error,
                )  # fmt: skip
                self._stopping.wait(self._retry_backoff_s * tries)
            except BaseException as end:  # noqa: BLE001 - raised again by `run`
                return end

    def _hand_over(self, record: ConsumerRecord, error: Exception) -> BaseException | None:
        if self._on_failure is None:
            return error
        try:
            self._on_failure(record, error)
        except BaseException as worse:  # noqa: BLE001 - as above
            return worse
        return None


class _Draining(RebalanceListener):
    """Waits for started records before partitions are revoked."""

    def __init__(self, owner: ParallelConsumer) -> None:
        self._owner = owner

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._owner.revoke(partitions, may_commit=True)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._owner.revoke(partitions, may_commit=False)


# Records with one identity may have different keys, or none, and so different workers.
#
# Note: a waiting worker holds no identity itself, so that workers cannot deadlock.
class DeduplicatedWork:
    """A deduplicator for many threads: one record at a time per identity."""

    def __init__(self, deduplicator: Deduplicator) -> None:
        self._seen = deduplicator
        self._in_work: set[bytes] = set()
        self._changed = threading.Condition()

    @contextmanager
    def alone(self, record: ConsumerRecord) -> Iterator[bool]:
        """Wait until no record with this identity is in progress; yield if it is new."""
        identity = self._seen.identity_of(record)
        if identity is None:
            yield True
            return
        with self._changed:
            self._changed.wait_for(lambda: identity not in self._in_work)
            self._in_work.add(identity)
        try:
            yield self._seen.is_new(record)
        finally:
            with self._changed:
                self._in_work.discard(identity)
                self._changed.notify_all()

    def done(self, record: ConsumerRecord) -> None:
        self._seen.handled(record)

    def flush(self) -> None:
        self._seen.flush()

"""Many workers on few partitions: order per key, commits behind the work, failures."""

import threading
from collections.abc import Callable

import pytest

from headwater.client import Admin, ConsumerRecord, ParallelConsumer, TopicPartition
from tests.compat.clients import TIMEOUT_S, Sent, write
from tests.compat.judges import CONFLUENT
from tests.compat.topics import create_topic


def settings(servers: str, group: str) -> dict[str, object]:
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 100,
    }


def fill(servers: str, topic: str, count: int, *, keys: int = 10, partitions: int = 1) -> None:
    create_topic(servers, topic, partitions=partitions)
    sent = [
        Sent(key=b"k%d" % (n % keys), value=b"%d" % n, partition=n % keys % partitions)
        for n in range(count)
    ]
    write(CONFLUENT, servers, topic, sent)


def run_in_thread(consumer: ParallelConsumer, handle: Callable[[ConsumerRecord], object]) -> None:
    """Run until the handler stops it, or fail in time."""
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            consumer.run(handle)
        except ValueError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive(), "it does not end"
    if outcome:
        raise outcome[0]


def committed(servers: str, group: str, topic: str) -> dict[int, int]:
    with Admin(bootstrap_servers=servers) as admin:
        found = admin.list_group_offsets(group)
    return {place.partition: where.offset for place, where in found.items() if place.topic == topic}


def test_each_key_is_handled_in_order_by_many_workers(servers: str, topic: str) -> None:
    fill(servers, topic, 300)
    seen: dict[bytes | None, list[int]] = {}
    workers: set[str] = set()
    lock = threading.Lock()

    def handle(record: ConsumerRecord) -> None:
        with lock:
            seen.setdefault(record.key, []).append(record.offset)
            workers.add(threading.current_thread().name)
            if sum(map(len, seen.values())) == 300:
                consumer.stop()

    with ParallelConsumer(settings(servers, topic), workers=4, max_pending=50) as consumer:
        consumer.subscribe([topic])
        run_in_thread(consumer, handle)
        assert consumer.pending == 0
    assert all(offsets == sorted(offsets) for offsets in seen.values())
    assert len(workers) > 1
    assert committed(servers, topic, topic) == {0: 300}


def test_commit_does_not_pass_unfinished_work(servers: str, topic: str) -> None:
    fill(servers, topic, 20, keys=20)
    later_done = threading.Semaphore(0)

    def handle(record: ConsumerRecord) -> None:
        if record.offset == 5:
            for _ in range(3):
                assert later_done.acquire(timeout=TIMEOUT_S)
            during.update(committed(servers, topic, topic))
            consumer.stop()
        elif record.offset > 5:
            later_done.release()

    during: dict[int, int] = {}
    with ParallelConsumer(settings(servers, topic), workers=2, commit_interval_ms=0) as consumer:
        consumer.subscribe([topic])
        run_in_thread(consumer, handle)
    assert during.get(0, 0) <= 5
    assert committed(servers, topic, topic) == {0: 20}


def test_failing_handler_is_retried_and_then_handed_over(servers: str, topic: str) -> None:
    fill(servers, topic, 5)
    tries: dict[int, int] = {}
    failed: list[tuple[int, str]] = []

    def handle(record: ConsumerRecord) -> None:
        tries[record.offset] = tries.get(record.offset, 0) + 1
        if record.offset == 1 and tries[1] < 3:
            raise ValueError("not yet")
        if record.offset == 2:
            raise ValueError("never")

    def on_failure(record: ConsumerRecord, error: Exception) -> None:
        failed.append((record.offset, str(error)))
        consumer.stop()

    with ParallelConsumer(
        settings(servers, topic), workers=1, retries=2, retry_backoff_ms=1, on_failure=on_failure
    ) as consumer:
        consumer.subscribe([topic])
        run_in_thread(consumer, handle)
    assert tries == {0: 1, 1: 3, 2: 3, 3: 1, 4: 1}
    assert failed == [(2, "never")]
    assert committed(servers, topic, topic) == {0: 5}


def test_without_a_failure_handler_a_failure_ends_the_run_uncommitted(
    servers: str, topic: str
) -> None:
    fill(servers, topic, 5)

    def handle(record: ConsumerRecord) -> None:
        if record.offset == 2:
            raise ValueError("never")

    with ParallelConsumer(settings(servers, topic), workers=1, retries=0) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(ValueError, match="never"):
            run_in_thread(consumer, handle)
    assert committed(servers, topic, topic) == {0: 2}


def test_pending_records_are_bounded(servers: str, topic: str) -> None:
    fill(servers, topic, 200)
    most = 0
    count = 0
    lock = threading.Lock()

    def handle(_: ConsumerRecord) -> None:
        nonlocal most, count
        with lock:
            most = max(most, consumer.pending)
            count += 1
            if count == 200:
                consumer.stop()

    with ParallelConsumer(
        {**settings(servers, topic), "max.poll.records": 10}, workers=2, max_pending=30
    ) as consumer:
        consumer.subscribe([topic])
        run_in_thread(consumer, handle)
    assert most < 30 + 10


def test_two_consumers_share_and_handle_everything(servers: str, topic: str) -> None:
    """Partitions move between them before they work; nothing is missed."""
    fill(servers, topic, 400, keys=40, partitions=4)
    seen: set[tuple[int, int]] = set()
    by_whom: set[int] = set()
    lock = threading.Lock()
    everything = threading.Event()
    both = threading.Event()

    def work(me: int) -> None:
        def handle(record: ConsumerRecord) -> None:
            with lock:
                by_whom.add(me)
                if len(by_whom) == 2:
                    both.set()
            # Wait until the other has got something, or one could do everything.
            assert both.wait(TIMEOUT_S)
            with lock:
                seen.add((record.partition, record.offset))
                if len(seen) == 400:
                    everything.set()
            if everything.is_set():
                consumer.stop()

        with ParallelConsumer(
            settings(servers, topic), workers=4, drain_timeout_ms=3_000
        ) as consumer:
            stoppers.append(consumer.stop)
            consumer.subscribe([topic])
            consumer.run(handle)

    stoppers: list[Callable[[], None]] = []
    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in range(2)]
    for thread in threads:
        thread.start()
    assert everything.wait(TIMEOUT_S)
    for stop in stoppers:
        stop()
    for thread in threads:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
    assert by_whom == {0, 1}
    assert sorted(committed(servers, topic, topic)) == [
        TopicPartition(topic, number).partition for number in range(4)
    ]

"""What ends a run of the parallel consumer. Tests with a broker are in tests/compat."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.client import ConsumerRecord, Deduplicator, ParallelConsumer
from headwater.client.errors import IllegalState, InvalidArgument
from headwater.client.parallel.parallel_consumer import DeduplicatedWork
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading
from tests.unit.client.parallel.test_deduplicator import record

TIMEOUT_S = 60


def settings(cluster: MockCluster) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 10,
    }


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_handler_that_raises_system_exit_ends_the_run(end: BaseException) -> None:
    """If only its worker ended, the worker's queue would wait forever."""

    def handle(record: ConsumerRecord) -> None:
        if record.offset == 1:
            raise end

    with MockCluster(topics={"tea": 1}) as cluster:
        reading = MockReading(cluster)
        reading.append("tea", 0, count=4)
        with (
            ParallelConsumer(settings(cluster), workers=1) as consumer,
            ThreadPoolExecutor(1) as pool,
        ):
            consumer.subscribe(["tea"])
            running = pool.submit(consumer.run, handle)
            ended = running.exception(TIMEOUT_S)
    assert ended is end
    assert list(reading.committed.values()) == [1]


def by_half(each: ConsumerRecord) -> bytes:
    return b"%d" % (each.offset // 2)


def test_a_deduplicator_processes_each_identity_once_and_flushes_before_the_commit(
    tmp_path: Path,
) -> None:
    """The records have no key, and so go to all workers."""
    handled: list[int] = []
    committed_at_flush: list[int] = []

    class Watched(Deduplicator):
        def flush(self) -> None:
            committed_at_flush.append(len(reading.committed))
            super().flush()

    def handle(each: ConsumerRecord) -> None:
        handled.append(each.offset // 2)
        if len(handled) == 4:
            consumer.stop()

    with MockCluster(topics={"tea": 1}) as cluster:
        reading = MockReading(cluster)
        reading.append("tea", 0, count=10)
        with Watched(tmp_path / "seen", identity=by_half) as seen:
            seen.handled(record(None, offset=4))
            with (
                ParallelConsumer(settings(cluster), workers=4, deduplicator=seen) as consumer,
                ThreadPoolExecutor(1) as pool,
            ):
                consumer.subscribe(["tea"])
                assert pool.submit(consumer.run, handle).exception(TIMEOUT_S) is None
            assert len(seen) == 5
    assert sorted(handled) == [0, 1, 3, 4]
    assert list(reading.committed.values()) == [10]
    assert committed_at_flush[0] == 0


def test_two_records_with_one_identity_are_never_processed_at_the_same_time(tmp_path: Path) -> None:
    outcome: list[bool] = []
    is_in = threading.Event()

    def second() -> None:
        with once.alone(record(None, offset=1)) as is_new:
            is_in.set()
            outcome.append(is_new)

    with Deduplicator(tmp_path / "seen", identity=by_half) as seen:
        once = DeduplicatedWork(seen)
        worker = threading.Thread(target=second, daemon=True)
        with once.alone(record(None, offset=0)) as is_new:
            assert is_new
            worker.start()
            assert not is_in.wait(0.1)
            with once.alone(record(None, offset=2)) as other_is_new:
                assert other_is_new
            once.done(record(None, offset=0))
        worker.join(TIMEOUT_S)
    assert outcome == [False]


def test_an_invalid_identity_ends_the_run(tmp_path: Path) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        reading = MockReading(cluster)
        reading.append("tea", 0, count=2)
        wrong: object = lambda each: each.offset  # noqa: E731
        with (
            Deduplicator(tmp_path / "seen", identity=wrong) as seen,  # type: ignore[arg-type]
            ParallelConsumer(settings(cluster), deduplicator=seen) as consumer,
            ThreadPoolExecutor(1) as pool,
        ):
            consumer.subscribe(["tea"])
            ended = pool.submit(consumer.run, print).exception(TIMEOUT_S)
    assert isinstance(ended, InvalidArgument)
    assert reading.committed == {}


def test_run_can_be_called_only_once() -> None:
    with (
        MockCluster(topics={"tea": 1}) as cluster,
        ParallelConsumer(settings(cluster)) as consumer,
    ):
        consumer.stop()
        consumer.run(print)
        with pytest.raises(IllegalState, match="create another consumer"):
            consumer.run(print)

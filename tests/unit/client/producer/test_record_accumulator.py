"""Batches in the accumulator: when they can be taken, and their memory."""

import random

from headwater.client.producer.buffer_pool import MemoryClaim
from headwater.client.producer.partition_queues import PartitionQueue
from headwater.client.producer.partitioner import StickyPartition
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.record_accumulator import RecordAccumulator
from headwater.records.batch_header import Codec
from tests.simulation.fakes.seeded_random import SeededRandom

RANDOM = SeededRandom(random.Random(3))


def accumulator(**keywords: int) -> tuple[RecordAccumulator, PartitionQueue]:
    made = RecordAccumulator(
        batch_bytes=keywords.get("batch_bytes", 1_000),
        linger_ms=keywords.get("linger_ms", 10),
        memory_bytes=keywords.get("memory_bytes", 10_000),
        is_compressing=False,
    )
    topic = made.topic_locked("tea", lambda: StickyPartition(RANDOM, is_adaptive=True))
    topic.resize(2)
    return made, topic.queues[0]


def begin(made: RecordAccumulator, queue: PartitionQueue, now_ms: int) -> None:
    assert isinstance(made.open_locked(queue, 0, None, b"x" * 100, b"\0", now_ms), ProducerBatch)


def takeable(made: RecordAccumulator, now_ms: int) -> list[PartitionQueue]:
    made.collect_locked(now_ms)
    return [queue for queue in list(made.ready) if made.is_sendable_locked(queue, now_ms)]


def test_a_batch_lingers_and_is_then_taken() -> None:
    made, queue = accumulator()
    begin(made, queue, 100)
    assert takeable(made, 109) == []
    assert made.next_due_ms() == 110
    assert takeable(made, 110) == [queue]
    assert made.take_locked(queue).count == 1
    assert takeable(made, 111) == []


def test_a_full_batch_does_not_linger_but_the_one_behind_it_does() -> None:
    made, queue = accumulator()
    begin(made, queue, 100)
    begin(made, queue, 101)
    assert takeable(made, 101) == [queue]
    made.take_locked(queue)
    assert takeable(made, 101) == []
    assert takeable(made, 111) == [queue]


def test_a_full_or_completed_batch_does_not_linger() -> None:
    """Nor does it stay in memory until its linger time."""
    made, queue = accumulator(linger_ms=3_600_000)
    for now_ms in range(100, 110):
        begin(made, queue, now_ms)
    assert made.next_due_ms() == 3_600_109
    while queue.batches:
        made.forget_locked(queue, made.take_locked(queue))
    assert made.next_due_ms() is None
    begin(made, queue, 200)
    made.forget_locked(queue, queue.batches[0])
    assert made.next_due_ms() is None


def test_without_linger_a_batch_is_due_for_an_earlier_clock_reading() -> None:
    made, queue = accumulator(linger_ms=0)
    begin(made, queue, 100)
    assert takeable(made, 99) == [queue]


def test_a_flushed_batch_stays_due() -> None:
    made, queue = accumulator()
    begin(made, queue, 100)
    assert len(made.expire_linger_locked()) == 1
    assert takeable(made, 100) == [queue]
    assert takeable(made, 100) == [queue]


def test_a_retried_batch_waits_for_its_backoff_and_blocks_later_ones() -> None:
    made, queue = accumulator(linger_ms=0)
    begin(made, queue, 100)
    first = made.take_locked(queue)
    begin(made, queue, 100)
    made.return_locked(queue, first, 150)
    assert takeable(made, 149) == []
    assert made.next_due_ms() == 150
    assert takeable(made, 150) == [queue]
    assert made.take_locked(queue) is first


def test_memory_is_reserved_with_a_batch_and_freed_on_completion() -> None:
    made, queue = accumulator(memory_bytes=2_500)
    begin(made, queue, 100)
    begin(made, queue, 100)
    assert made.memory.free_bytes == 500
    claim = made.open_locked(queue, 0, None, b"x" * 100, b"\0", 100)
    assert isinstance(claim, MemoryClaim)
    # A shortage of memory ends lingering, or nothing would be freed.
    assert takeable(made, 100) == [queue]
    made.forget_locked(queue, made.take_locked(queue))
    assert made.memory.free_bytes == 500
    assert claim.is_called
    assert isinstance(
        made.open_locked(queue, 0, None, b"x" * 100, b"\0", 100, claim), ProducerBatch
    )
    made.memory.cancel(claim)
    assert made.memory.free_bytes == 500


def test_a_batch_opened_while_callers_wait_for_memory_does_not_linger() -> None:
    """Otherwise they would wait as long as that batch lingers."""
    made, queue = accumulator(memory_bytes=2_500, linger_ms=3_600_000)
    begin(made, queue, 100)
    begin(made, queue, 100)
    first = made.open_locked(queue, 0, None, b"x" * 100, b"\0", 100)
    second = made.open_locked(queue, 0, None, b"x" * 2_000, b"\0", 100)
    assert isinstance(first, MemoryClaim)
    assert isinstance(second, MemoryClaim)
    for _ in range(2):
        made.forget_locked(queue, made.take_locked(queue))
    assert (first.is_called, second.is_called) == (True, False)
    assert takeable(made, 100) == []
    made.open_locked(queue, 0, None, b"x" * 100, b"\0", 100, first)
    assert takeable(made, 100) == [queue]


def test_a_batch_never_needs_more_than_buffer_memory() -> None:
    made, queue = accumulator(batch_bytes=20_000, memory_bytes=10_000)
    begin(made, queue, 100)
    assert made.memory.free_bytes == 0


def test_the_oldest_batches_expire_first() -> None:
    made, queue = accumulator()
    begin(made, queue, 100)
    begin(made, queue, 200)
    assert made.expired_locked(1_099, 1_000) == []
    assert len(made.expired_locked(1_100, 1_000)) == 1
    assert len(made.expired_locked(1_200, 1_000)) == 2


def test_parts_of_a_split_batch_keep_its_age() -> None:
    made, queue = accumulator(batch_bytes=300)
    begin(made, queue, 100)
    assert queue.open_append is not None
    assert queue.open_append[1](0, None, b"y" * 100, b"\0") == 1
    whole = made.take_locked(queue)
    begin(made, queue, 500)
    whole.seal(Codec.NONE, None)
    parts = whole.split(200)
    made.replace_locked(queue, whole, parts)
    assert made.expired_locked(1_100, 1_000) == parts
    assert [each.record_count for each in made.expire_linger_locked()] == [1, 1, 1]


def test_the_backlog_counts_unsent_batches_only() -> None:
    made, queue = accumulator()
    begin(made, queue, 100)
    assert made.backlog_bytes == 0
    begin(made, queue, 100)
    assert made.backlog_bytes > 0
    first = made.take_locked(queue)
    assert made.backlog_bytes == 0
    made.return_locked(queue, first, 0)
    assert made.backlog_bytes == first.size_bytes
    made.forget_locked(queue, first)
    assert made.backlog_bytes == 0


def test_the_compression_ratio_rises_at_once_and_falls_slowly() -> None:
    made, queue = accumulator()
    topic = queue.topic
    topic.learn_ratio(1_000, 100)
    assert topic.ratio == 0.995
    for _ in range(300):
        topic.learn_ratio(1_000, 100)
    assert topic.ratio == 0.1
    topic.learn_ratio(1_000, 900)
    assert topic.ratio == 0.9
    assert made.memory.free_bytes == 10_000


def test_adaptive_partitioning_prefers_short_queues() -> None:
    """KIP-794."""
    sticky = StickyPartition(RANDOM, is_adaptive=True)
    chosen = [sticky.move([4, 7], [0, 9], 8) for _ in range(300)]
    assert chosen.count(4) > 200
    assert chosen.count(7) > 0
    even = StickyPartition(RANDOM, is_adaptive=False)
    assert 100 < [even.move([4, 7], [0, 9], 8) for _ in range(300)].count(7) < 200
    assert even.move([], [], 3) in (0, 1, 2)

"""A copy task: guarantees wherever it dies, with and without transactions."""

import itertools

import pytest

from headwater.client.group_metadata import OffsetAndMetadata
from headwater.common.ids import TopicPartition
from headwater.mirror.checkpoints import CheckpointView
from headwater.mirror.offset_map import MirrorOffsetMap, Run
from headwater.mirror.partition_copy import PartitionCopy
from headwater.mirror.task_assignment import Copied, CopyRange
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec
from headwater.records.record import Record
from tests.unit.mirror.fake_clusters import (
    Crash,
    FakeCheckpoints,
    FakeProducer,
    FakeSource,
    FakeTarget,
)

SOURCE = TopicPartition("tea", 0)
TARGET = TopicPartition("a.tea", 0)
PAIR = "1/2"


def batch(first: int, count: int, codec: Codec = Codec.NONE) -> bytes:
    records = [
        Record(key=b"k", value=b"%d" % number, timestamp=1_000 + number, offset=number)
        for number in range(first, first + count)
    ]
    return build_batch(records, base_offset=first, codec=codec)


def a_source() -> FakeSource:
    """Batches with all codecs, and a gap in place of a marker or an aborted record."""
    batches, first = [], 0
    for count, codec in zip((3, 1, 5, 2, 4), Codec, strict=True):
        batches.append(batch(first, count, codec))
        first += count + (2 if codec is Codec.SNAPPY else 0)
    return FakeSource(batches)


def copy(
    source: FakeSource,
    target: FakeTarget,
    *,
    is_exactly_once: bool,
    start: int = 0,
    last_run: Run | None = None,
    pair: str = PAIR,
    chunk_bytes: int = 150,
    slice_ms: int = 1_000_000,
) -> list[Copied]:
    """One attempt by one process."""
    ticks = itertools.count()
    task = PartitionCopy(
        "A",
        source=source,
        producer=FakeProducer(target),
        checkpoints=FakeCheckpoints(target),
        is_exactly_once=is_exactly_once,
        chunk_bytes=chunk_bytes,
        slice_ms=slice_ms,
        steady_ms=lambda: next(ticks),
    )
    wanted = CopyRange(
        source=SOURCE, target=TARGET, start=start, end=source.end, pair=pair, last_run=last_run
    )
    return task.run([wanted])


def content(records: list[Record]) -> list[tuple[bytes | None, int]]:
    return [(record.value, record.timestamp) for record in records]


def known_offsets(target: FakeTarget) -> MirrorOffsetMap:
    view = CheckpointView()
    for key, value, _ in target.registry:
        view.replay(key, value)
    offsets = view.offsets("A", TARGET, PAIR)
    assert offsets is not None
    return offsets


@pytest.mark.parametrize("is_exactly_once", [True, False])
def test_records_are_copied_with_codecs_and_timestamps(is_exactly_once: bool) -> None:
    source, target = a_source(), FakeTarget()
    (copied,) = copy(source, target, is_exactly_once=is_exactly_once)
    assert copied.position == source.end
    assert copied.records == 15
    assert content(target.visible()) == content(source.records())
    assert [header.codec for header in target.headers] == list(Codec)


@pytest.mark.parametrize("is_last_done", [True, False])
@pytest.mark.parametrize("calls", range(1, 40))
def test_exactly_once_holds_wherever_a_task_dies(calls: int, is_last_done: bool) -> None:
    source, target = a_source(), FakeTarget(calls_left=calls, is_last_done=is_last_done)
    try:
        copy(source, target, is_exactly_once=True)
    except Crash:
        target.calls_left = None
        copy(source, target, is_exactly_once=True)
    assert content(target.visible()) == content(source.records())


@pytest.mark.parametrize("is_last_done", [True, False])
@pytest.mark.parametrize("calls", range(1, 30))
def test_nothing_is_lost_wherever_a_task_dies(calls: int, is_last_done: bool) -> None:
    source, target = a_source(), FakeTarget(calls_left=calls, is_last_done=is_last_done)
    try:
        copy(source, target, is_exactly_once=False)
    except Crash:
        target.calls_left = None
        copy(source, target, is_exactly_once=False)
    assert set(content(target.visible())) == set(content(source.records()))


@pytest.mark.parametrize("is_last_done", [True, False])
@pytest.mark.parametrize("calls", range(1, 40))
@pytest.mark.parametrize("is_exactly_once", [True, False])
def test_offsets_are_translated_exactly_wherever_a_task_died(
    calls: int, is_last_done: bool, is_exactly_once: bool
) -> None:
    source, target = a_source(), FakeTarget(calls_left=calls, is_last_done=is_last_done)
    try:
        copy(source, target, is_exactly_once=is_exactly_once)
    except Crash:
        target.calls_left = None
        copy(source, target, is_exactly_once=is_exactly_once)
    expect_translations(source, target)


def expect_translations(source: FakeSource, target: FakeTarget) -> None:
    """Every offset is translated to its own record."""
    offsets = known_offsets(target)
    for record in source.records():
        assert record.offset is not None
        place = offsets.translated(record.offset)
        assert place is not None
        # A consumer that continues there reads this record next.
        following = next(each.record for each in target.log if each.offset >= place)
        assert following.value == record.value
    end = offsets.translated(source.end)
    assert end is not None
    assert not [each for each in target.log if each.offset >= end]


@pytest.mark.parametrize("is_exactly_once", [True, False])
def test_checkpoint_topic_replaces_expired_checkpoints(is_exactly_once: bool) -> None:
    """Committed offsets of an idle topic expire after a week."""
    source, target = a_source(), FakeTarget()
    copy(source, target, is_exactly_once=is_exactly_once)
    for _ in range(3):
        target.notes.clear()
        # The view of a restarted driver.
        last = known_offsets(target).last
        assert last is not None
        assert last.source_end == source.end
        source.batches += [batch(source.end + 1, 3), batch(source.end + 7, 2)]
        (copied,) = copy(
            source,
            target,
            is_exactly_once=is_exactly_once,
            start=last.source_end,
            last_run=last,
        )
        assert copied.last_run == known_offsets(target).last
        assert copied.last_run is not None
        assert copied.last_run.number > last.number
    assert content(target.visible()) == content(source.records())
    expect_translations(source, target)


def test_fenced_task_cannot_commit() -> None:
    source, target = a_source(), FakeTarget()
    zombie = FakeProducer(target)
    zombie.init_transactions()
    copy(source, target, is_exactly_once=True)
    with pytest.raises(Exception, match="taken over"):
        zombie.commit_transaction()


def test_task_stops_after_its_time_and_the_next_one_continues() -> None:
    source, target = a_source(), FakeTarget()
    (first,) = copy(source, target, is_exactly_once=True, slice_ms=2)
    assert 0 < first.position < source.end
    copy(source, target, is_exactly_once=True)
    assert content(target.visible()) == content(source.records())


def test_copying_may_start_within_a_batch() -> None:
    source, target = a_source(), FakeTarget()
    copy(source, target, is_exactly_once=False, start=6)
    wanted = [each for each in source.records() if each.offset is not None and each.offset >= 6]
    assert content(target.visible()) == content(wanted)
    assert known_offsets(target).translated(6) == 0
    assert known_offsets(target).translated(7) == 1


def test_records_deleted_by_retention_are_counted_and_the_rest_is_copied() -> None:
    source, target = a_source(), FakeTarget()
    source.earliest = 4
    (copied,) = copy(source, target, is_exactly_once=True)
    assert copied.lost == 4
    assert copied.records == 11


def test_checkpoint_of_another_topic_with_the_same_name_is_ignored() -> None:
    source, target = a_source(), FakeTarget()
    target.notes[TARGET] = OffsetAndMetadata(9, metadata='{"pair":"an older one"}')
    copy(source, target, is_exactly_once=True)
    assert content(target.visible()) == content(source.records())


def test_log_without_gaps_is_one_run_without_transactions() -> None:
    source = FakeSource([batch(number * 5, 5) for number in range(20)])
    target = FakeTarget()
    copy(source, target, is_exactly_once=False, chunk_bytes=1)
    assert len({key for key, _, _ in target.registry}) == 2

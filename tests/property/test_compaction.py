"""Random logs, cleaned repeatedly, compared with a brute-force model."""

import random
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.records.batch_header import Codec
from headwater.records.control_batches import ControlType
from headwater.storage.cleaner.cleaner import clean
from headwater.storage.cleaner.cleaning_job import CleaningJob, CleaningResult
from headwater.storage.cleaner.segment_swap import apply, finish_interrupted
from headwater.storage.io.disk import read_whole
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.simple_log import (
    FOLDER,
    OFFSET_ENTRY,
    TIME_ENTRY,
    Batch,
    Pair,
    SimpleLog,
    pairs,
    read_aborted,
    read_committed,
    read_log,
    read_segment,
)

IDEMPOTENT, FIRST_TXN, SECOND_TXN = 1, 2, 3
RETENTION_MS = 1000

Action = tuple[object, ...]

# The fifth looks like the key of a COMMIT marker.
keys = st.sampled_from([b"a", b"b", b"c", b"d", b"\0\0\0\1", b"a longer key", None])
values = st.sampled_from([b"1", b"22", None])
batches = st.tuples(
    st.just("append"),
    st.sampled_from([-1, -1, IDEMPOTENT, FIRST_TXN, SECOND_TXN]),
    st.lists(st.tuples(keys, values), min_size=1, max_size=4),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP]),
)
endings = st.tuples(
    st.just("end"), st.sampled_from([FIRST_TXN, SECOND_TXN]), st.booleans(), st.booleans()
)
expiries = st.tuples(st.just("expire"), st.sampled_from([IDEMPOTENT, FIRST_TXN, SECOND_TXN]))
rolls = st.just(("roll",))
# Open transactions delay cleaning, so most cleanings first end them: True commits.
cleanings = st.tuples(
    st.just("clean"),
    st.sampled_from([True, False, None]),
    st.sampled_from([1, 2, 3, 4, 1000]),
    st.sampled_from([0, 400, 1000]),
    st.sampled_from([1, 150, 4096]),
    st.sampled_from([200, 500, 1 << 30]),
)
writes = st.one_of(batches, batches, batches, endings, rolls, expiries)
rounds = st.lists(
    st.tuples(st.lists(writes, min_size=2, max_size=12), cleanings), min_size=1, max_size=5
)


@dataclass
class Model:
    """Expected content of the log, computed without the compaction code."""

    log: SimpleLog
    now_ms: int = 10_000
    aborted: set[int] = field(default_factory=set)
    horizons: dict[int, int] = field(default_factory=dict)

    def clean(self, map_keys: int, passed_ms: int, io_bytes: int, segment_bytes: int) -> None:
        log = self.log
        self.now_ms += passed_ms
        log.roll()
        job = replace(
            log.job(now_ms=self.now_ms),
            map_memory_bytes=24 * (map_keys + 1),
            io_buffer_bytes=io_bytes,
            segment_bytes=segment_bytes,
            delete_retention_ms=RETENTION_MS,
        )
        if job.first_dirty_offset >= job.end_offset:
            return
        before = read_log(log.disk)
        seen_before = read_committed(log.disk, log.last_stable_offset)
        result = clean(log.disk, job)
        assert job.first_dirty_offset < result.first_dirty_offset <= job.end_offset
        apply(log.disk, FOLDER, result)
        finish_interrupted(log.disk, FOLDER)
        log.accept(result)
        expected = self.survivors(before, seen_before, result.first_dirty_offset)
        assert read_committed(log.disk, log.last_stable_offset) == expected
        self.check_batches(before, job, result)
        for group in result.groups:
            check_indexes(log, group.base_offset, job)

    def survivors(self, before: list[Batch], seen: list[Pair], end: int) -> list[Pair]:
        """CP-3 and CP-4, one record at a time."""
        newest = {pair.key: pair.offset for pair in seen if pair.offset < end}
        batch_of = {
            pair.offset: batch.header.base_offset for batch in before for pair in pairs(batch)
        }
        old_horizons = dict(self.horizons)
        kept = []
        for pair in seen:
            base = batch_of[pair.offset]
            if pair.offset < end:
                if pair.key is None or newest[pair.key] != pair.offset:
                    continue
                if pair.value is None and self.now_ms >= old_horizons.get(base, 1 << 60):
                    continue
            kept.append(pair)
            # A batch has one horizon: that of the first cleaning which kept a tombstone in it.
            if pair.value is None and base < end and base not in self.horizons:
                self.horizons[base] = self.now_ms + RETENTION_MS
        return kept

    def check_batches(self, before: list[Batch], job: CleaningJob, result: CleaningResult) -> None:
        after = read_log(self.log.disk)
        old = {batch.header.base_offset: batch.header for batch in before}
        bases = [source.base_offset for source in job.sources] + [job.end_offset]
        replaced = sum(len(group.replaced) for group in result.groups)
        for batch in after:
            header, was = batch.header, old[batch.header.base_offset]
            assert header.last_offset == was.last_offset
            assert header.leader_epoch == was.leader_epoch
            assert header.codec == was.codec or header.record_count == 0
            assert header[9:12] == was[9:12], "producer id, epoch and sequence"
            if header.base_offset < bases[replaced]:
                assert not {record.offset for record in batch.records} & self.aborted
        self.check_producers(after)
        check_markers(before, after)

    def check_producers(self, after: list[Batch]) -> None:
        """IDP-12: the batches needed to rebuild the producer state are still there."""
        for producer in self.log.producers.values():
            if not producer.is_live:
                continue
            if producer.last_data_offset >= 0:
                ends = [batch.header.last_offset for batch in after]
                assert producer.last_data_offset in ends
            else:
                epochs = [
                    (batch.header.producer_id, batch.header.producer_epoch)
                    for batch in after
                    if batch.header.is_control
                ]
                assert (producer.producer_id, producer.epoch) in epochs


def check_markers(before: list[Batch], after: list[Batch]) -> None:
    """CP-5: as long as a batch of a transaction exists, its marker does too."""
    ends_of: dict[int, int] = {}
    open_batches: dict[int, list[int]] = {}
    for batch in before:
        header = batch.header
        if header.is_control and batch.marker is not None:
            for base in open_batches.pop(header.producer_id, []):
                ends_of[base] = header.base_offset
        elif header.is_transactional and not header.is_control:
            open_batches.setdefault(header.producer_id, []).append(header.base_offset)
    markers = {batch.header.base_offset for batch in after if batch.marker is not None}
    for batch in after:
        base = batch.header.base_offset
        if base in ends_of and not batch.header.is_control:
            assert ends_of[base] in markers


def check_indexes(log: SimpleLog, base: int, job: CleaningJob) -> None:
    """Check that the entries equal the ones of appends."""
    offset_entries = []
    time_entries: list[tuple[int, int]] = []
    since = 0
    largest = (-1, -1)

    def add_time() -> None:
        if largest[0] > (time_entries[-1][0] if time_entries else -1):
            time_entries.append(largest)

    found = read_segment(log.disk, base)
    for batch in found:
        header = batch.header
        if header.max_timestamp > largest[0]:
            largest = (header.max_timestamp, header.last_offset - base)
        if since > job.index_interval_bytes:
            offset_entries.append((header.last_offset - base, batch.position))
            add_time()
            since = 0
        since += header.size_bytes
    add_time()
    offsets = read_whole(log.disk, FOLDER / f"{base:020d}.index") or b""
    times = read_whole(log.disk, FOLDER / f"{base:020d}.timeindex") or b""
    assert list(OFFSET_ENTRY.iter_unpack(offsets)) == offset_entries
    assert list(TIME_ENTRY.iter_unpack(times)) == time_entries
    markers = {
        (batch.header.producer_id, batch.header.base_offset)
        for batch in found
        if batch.marker is ControlType.ABORT
    }
    end = found[-1].header.next_offset if found else base
    for span in read_aborted(log.disk):
        if base <= span.last_offset < end:
            assert (span.producer_id, span.last_offset) in markers


def act(model: Model, action: Action) -> None:
    log = model.log
    match action:
        case ("append", int(producer_id), list(content), Codec() as codec):
            first = log.append(
                content,
                producer_id=producer_id,
                is_transactional=producer_id >= FIRST_TXN,
                codec=codec,
                timestamp=model.now_ms + log.end_offset * 7 % 50,
            )
            assert first < log.end_offset
        case ("end", int(producer_id), bool(commit), bool(bumps_epoch)):
            producer = log.producers.get(producer_id)
            opened = None if producer is None else producer.open_since
            log.end_transaction(producer_id, commit=commit, bumps_epoch=bumps_epoch)
            if opened is not None and not commit:
                model.aborted |= {
                    record.offset or 0
                    for batch in read_log(log.disk)
                    if batch.header.producer_id == producer_id and not batch.header.is_control
                    for record in batch.records
                    if (record.offset or 0) >= opened
                }
        case ("expire", int(producer_id)):
            producer = log.producers.get(producer_id)
            if producer is not None and producer.open_since is None:
                del log.producers[producer_id]
        case ("roll",):
            log.roll()
        case ("clean", commit, int(map_keys), int(passed_ms), int(io_bytes), int(segment_bytes)):
            if commit is not None:
                end_all(model, commit=bool(commit))
            model.clean(map_keys, passed_ms, io_bytes, segment_bytes)
        case _:
            raise AssertionError(action)


def end_all(model: Model, *, commit: bool) -> None:
    for producer in list(model.log.producers.values()):
        if producer.open_since is not None:
            act(model, ("end", producer.producer_id, commit, False))


@settings(max_examples=100, deadline=None)
@given(rounds)
def test_every_cleaning_leaves_exactly_the_newest_committed_values(
    todo: list[tuple[list[Action], Action]],
) -> None:
    """CP-3, CP-4, CP-5, CP-6, IDP-12: on any log, with any size of map, buffer and segment."""
    model = Model(SimpleLog(LossyDisk(random.Random(1))))
    for actions, cleaning in todo:
        for action in actions:
            act(model, action)
        act(model, cleaning)
    log = model.log
    end_all(model, commit=False)
    log.producers.clear()
    # In the end everything is old: tombstones are removed, then the markers without data. A
    # transactional tombstone takes four rounds: its horizon, its removal, the marker's horizon, its
    # removal.
    for _ in range(4):
        log.append([(b"z", b"1")], timestamp=model.now_ms)
        model.clean(1000, 2 * RETENTION_MS, 4096, 1 << 30)
    left = read_log(log.disk)
    assert all(batch.header.record_count for batch in left)
    open_producers: set[int] = set()
    for batch in left:
        producer_id = batch.header.producer_id
        if batch.header.is_control:
            assert batch.marker is ControlType.COMMIT
            assert producer_id in open_producers, "a marker stays only for data"
            open_producers.remove(producer_id)
        elif batch.header.is_transactional:
            open_producers.add(producer_id)
    assert not any(pair.value is None for batch in left for pair in pairs(batch))
    assert read_aborted(log.disk) == []

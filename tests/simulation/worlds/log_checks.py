"""Invariants of a partition's log, checked by brute force from its batches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath

from headwater.common.exceptions import OffsetOutOfRange
from headwater.records.record_reader import read_records
from headwater.storage.io.disk import Disk
from headwater.storage.log import segment_files
from headwater.storage.log.batch_walk import walk_batches
from headwater.storage.log.leader_epoch_checkpoint import EpochEntry
from headwater.storage.log.log_check import CheckedBatch
from headwater.storage.log.segment import LogSegment
from headwater.storage.log.segment_check import SegmentFiles, check_segment
from headwater.storage.log.unified_log import LogRead, ReadBound, UnifiedLog
from tests.simulation.fakes.batches import Batch, Broken
from tests.simulation.worlds.log_model import Found
from tests.simulation.worlds.producer_reference import Producers, aborted_transactions

_PASSING = (".tmp", ".deleted", ".cleaned", ".swap")
_ALLOWED = ("leader-epoch-checkpoint", "partition.metadata", "move-count")


def look(log: UnifiedLog) -> Found:
    """All batches of the log's files, and its bounds."""
    batches: list[Batch] = []
    for segment in log.local_log.segments:
        batches += _batches_of(segment)
    return Found(batches=batches, start=log.log_start_offset, end=log.end_offset)


def check_log(log: UnifiedLog, found: Found, rng: random.Random) -> None:
    """Everything that needs no model."""
    check_offsets(log)
    check_segments(log, found)
    check_times(log, found, rng)
    for _ in range(3):
        offset = rng.randint(max(0, found.start - 2), found.end + 2)
        bound = rng.choice(list(ReadBound))
        check_read(log, found, offset, bound=bound, max_bytes=rng.choice([0, 1, 200, 5000]))


def check_offsets(log: UnifiedLog) -> None:
    chain = [log.log_start_offset, log.last_stable_offset, log.high_watermark, log.end_offset]
    if chain != sorted(chain):
        raise Broken(f"start, last stable, high watermark and end do not rise: {chain}")
    if log.log_start_offset < log.local_log.segments.first.base_offset:
        raise Broken("the log starts before its first segment")


def check_epochs(log: UnifiedLog, found: Found, former_starts: Sequence[int]) -> None:
    """Epochs as in the batches; one without batches may stand at the end.

    What the log forgot below a former start stays forgotten when the start falls back.
    """
    entries = _with_batches(log.epochs.entries(), found)
    forgotten_up_to = max(former_starts, default=0)
    # Compaction may have removed the first batch of the first remembered epoch.
    remembered = [entry.start_offset for entry in entries]
    starts = [found.start, *former_starts, *remembered, *(each.base for each in found.batches)]
    starts = [each for each in starts if found.start <= each <= max(found.start, forgotten_up_to)]
    if not any(_epochs_fit(entries, found, start) for start in starts):
        told = [(batch.header.leader_epoch, batch.base) for batch in found.batches]
        raise Broken(f"from {found.start} the epochs are {_plain(entries)}, batches tell {told}")


def _with_batches(entries: Sequence[EpochEntry], found: Found) -> list[EpochEntry]:
    """Without epochs that began and ended where a follower's log has a gap."""
    kept = [
        entry
        for entry, following in pairwise(entries)
        if any(
            batch.next > entry.start_offset and batch.base < following.start_offset
            for batch in found.batches
        )
    ]
    return [*kept, *entries[-1:]]


def _epochs_fit(entries: Sequence[EpochEntry], found: Found, start: int) -> bool:
    expected: list[tuple[int, int, int]] = []
    previous_end = 0
    for batch in found.batches:
        if batch.next > start and (not expected or expected[-1][0] != batch.header.leader_epoch):
            low, high = max(previous_end, start), max(batch.base, start)
            expected.append((batch.header.leader_epoch, min(low, high), high))
        previous_end = batch.next
    if not expected:
        return len(entries) <= 1
    known, extra = entries[: len(expected)], entries[len(expected) :]
    return (
        len(known) == len(expected)
        and all(
            entry.epoch == epoch and low <= entry.start_offset <= high
            for entry, (epoch, low, high) in zip(known, expected, strict=True)
        )
        and len(extra) <= 1
        and all(_is_begun(each, found) for each in extra)
    )


def check_segments(log: UnifiedLog, found: Found) -> None:
    disk = log.local_log.home.disk
    segments = list(log.local_log.segments)
    for index, segment in enumerate(segments):
        status = disk.status(segment.log.path)
        if status is None or status.size != segment.size:
            raise Broken(f"{segment.log.path.name} has {status}, the log knows {segment.size}")
        end = segments[index + 1].base_offset if index + 1 < len(segments) else found.end
        inside = [batch for batch in found.batches if segment.base_offset <= batch.base < end]
        if sum(len(batch.content) for batch in inside) != segment.size:
            raise Broken(f"segment {segment.base_offset} holds batches of another range")
        _check_largest_timestamp(segment, inside)


def _check_largest_timestamp(segment: LogSegment, inside: Sequence[Batch]) -> None:
    largest, offset = -1, segment.base_offset
    for batch in inside:
        if batch.header.max_timestamp > largest:
            largest, offset = batch.header.max_timestamp, batch.header.last_offset
    told = (segment.largest_timestamp, segment.offset_of_largest_timestamp)
    if told != (largest, offset):
        raise Broken(
            f"segment {segment.base_offset} tells largest timestamp {told}, not {(largest, offset)}"
        )


def check_times(log: UnifiedLog, found: Found, rng: random.Random) -> None:
    """LO-1, LO-2: the first record at least so late, and the latest."""
    times = [
        (record.timestamp, record.offset or 0)
        for batch in found.batches
        for record in read_records(batch.content, batch.header)
        if (record.offset or 0) >= found.start
    ]
    wanted = rng.choice(times)[0] + rng.randint(-1, 1) if times else 5
    expected = next((offset for timestamp, offset in times if timestamp >= wanted), None)
    told = log.first_since(wanted)
    if (told and told.offset) != expected:
        raise Broken(f"the first record since {wanted} is at {expected}, not {told}")
    latest = log.with_largest_timestamp()
    largest = max((timestamp for timestamp, _ in times), default=None)
    if (latest and latest.timestamp) != largest:
        raise Broken(f"the largest timestamp is {largest}, not {latest}")


def check_read(
    log: UnifiedLog, found: Found, offset: int, *, bound: ReadBound, max_bytes: int
) -> None:
    """One read returns the batches from the offset on, complete ones first, within the limit."""
    try:
        read = log.read(offset, max_bytes=max_bytes, bound=bound)
    except OffsetOutOfRange:
        if found.start <= offset <= found.end:
            raise Broken(f"offset {offset} was called out of range") from None
        return
    if not found.start <= offset <= found.end:
        raise Broken(f"offset {offset} outside of {found.start} to {found.end} was read")
    limit = {
        ReadBound.LOG_END: found.end,
        ReadBound.HIGH_WATERMARK: log.high_watermark,
        ReadBound.LAST_STABLE: log.last_stable_offset,
    }[bound]
    expected = [batch for batch in found.batches if batch.next > offset and batch.base < limit]
    if read.range is None:
        if expected and offset < limit and expected[0].next <= limit:
            raise Broken(f"nothing was read at {offset} below {limit}")
        return
    content = read.range.read()
    whole = b"".join(batch.content for batch in expected)
    if not whole.startswith(content):
        raise Broken(f"the read at {offset} up to {limit} gave other bytes than the log's")
    if len(content) < min(len(whole), len(expected[0].content)):
        raise Broken(f"the read at {offset} gave less than one batch")
    if len(content) > max(max_bytes, len(expected[0].content)):
        raise Broken(f"the read at {offset} gave more than {max_bytes} bytes")
    if bound is ReadBound.LAST_STABLE:
        _check_aborted(log, found, offset, read, expected)


def _check_aborted(
    log: UnifiedLog, found: Found, offset: int, read: LogRead, expected: Sequence[Batch]
) -> None:
    assert read.range is not None
    assert read.aborted is not None
    left, upper = read.range.length, offset
    for batch in expected:
        if left >= len(batch.content):
            upper = batch.next
        left -= len(batch.content)
    truth = {
        (each.producer_id, each.last_offset): each.first_offset
        for each in aborted_transactions(found.batches)
    }
    told = {(each.producer_id, each.last_offset): each.first_offset for each in read.aborted}
    for key, first_offset in truth.items():
        if key[1] >= offset and first_offset < upper and told.get(key, upper) > first_offset:
            raise Broken(f"a read of {offset} to {upper} misses the aborted transaction {key}")
    if log.settings.is_compacted:
        # The index may still have a transaction whose marker is gone; that skips nothing.
        return
    oldest = found.batches[0].base
    for key, first_offset in told.items():
        # One that began before the oldest remaining batch may be only a marker.
        if key not in truth and first_offset >= oldest:
            raise Broken(f"a read at {offset} tells of {key}, which was never aborted")


def check_last_stable(log: UnifiedLog, batches: Sequence[Batch], producers: Producers) -> None:
    """LSO-1, as far as a restart can know it: ended transactions may be forgotten."""
    watermark = log.high_watermark
    opened = [each.transaction_start for each in producers.values() if each.transaction_start >= 0]
    upper = min([watermark, *opened])
    unreplicated = [first for first, marker in _ended_transactions(batches) if marker >= watermark]
    lower = min([upper, *unreplicated])
    told = log.last_stable_offset
    if not max(lower, log.log_start_offset) <= told <= max(upper, log.log_start_offset):
        raise Broken(f"the last stable offset is {told}, not within {lower} to {upper}")


def check_names(disk: Disk, log: UnifiedLog, *, strict: bool) -> None:
    """No unknown file in the folder; `strict` after a clean stop."""
    bases = {segment.base_offset: None for segment in log.local_log.segments}
    for name in disk.names(log.folder):
        if name in _ALLOWED or (not strict and name.endswith(_PASSING)):
            continue
        kinds = [kind for kind in segment_files.SEGMENT_KINDS if name.endswith(kind)]
        if kinds and segment_files.offset_in(name, kinds[0]) in bases:
            continue
        snapshot = segment_files.offset_in(name, segment_files.SNAPSHOT)
        if snapshot is not None and snapshot <= log.end_offset:
            continue
        raise Broken(f"{log.folder.name} holds {name} beside segments {list(bases)}")


def check_sound(disk: Disk, folder: PurePath) -> None:
    """`headwater log dump` would find no damage in any segment."""
    for name in disk.names(folder):
        base_offset = segment_files.offset_in(name, segment_files.LOG)
        if base_offset is None:
            continue
        paths = [
            segment_files.path_of(folder, base_offset, kind)
            for kind in (segment_files.LOG, segment_files.INDEX, segment_files.TIME_INDEX)
        ]
        log, index, time_index = (
            disk.open(path) if disk.status(path) is not None else None for path in paths
        )
        assert log is not None
        if log.size() and (index is None or time_index is None):
            raise Broken(f"{folder.name}/{name} lacks an index")
        files = SegmentFiles(
            name=name, base_offset=base_offset, log=log, index=index, time_index=time_index
        )
        for item in check_segment(files):
            if not isinstance(item, CheckedBatch):
                raise Broken(f"{folder.name}/{name} is not sound: {item}")
        for file in (log, index, time_index):
            if file is not None:
                file.close()


def _batches_of(segment: LogSegment) -> Iterator[Batch]:
    for placed in walk_batches(segment.log.file(), 0, segment.size):
        yield Batch(placed.header, bytes(placed.content))


def _ended_transactions(batches: Sequence[Batch]) -> Iterator[tuple[int, int]]:
    starts: dict[int, int] = {}
    for batch in batches:
        header = batch.header
        if header.is_control and header.producer_id in starts:
            yield starts.pop(header.producer_id), header.base_offset
        elif header.is_transactional and not header.is_control:
            starts.setdefault(header.producer_id, header.base_offset)


def _is_begun(entry: EpochEntry, found: Found) -> bool:
    last = found.batches[-1].next if found.batches else found.start
    return last <= entry.start_offset <= found.end


def _plain(entries: Sequence[EpochEntry]) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in entries]

"""Speed of log appends, lookups and opening, compared with the minimum of the operating system.

Appending is compared with a loop of `os.pwrite` over the same buffers in the same run, because the
cost of a page in the page cache differs between machines by more than the log's whole overhead.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path, PurePath

from bench.harness import Bench, median_of_rounds
from headwater.common.exceptions import StorageError
from headwater.common.ids import TopicPartition
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.storage.io.executor import InlineExecutor
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.io.os_disk import OsDisk, OsFile
from headwater.storage.log.log_loader import CheckpointedState, LogLocation, load_log
from headwater.storage.log.unified_log import LogEvents, UnifiedLog
from headwater.storage.log_manager.pending_deletes import PendingDeletes

NOW_MS = 1_700_000_000_000
BATCH_BYTES = 16 * 1024
APPENDS = 2_000
ROUNDS = 7
MANY_SEGMENTS = 10_000


def measure(bench: Bench) -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        _measure_appends(bench, Path(directory))
        _measure_lookups(bench, Path(directory))
        _measure_opening(bench, Path(directory))


def _measure_appends(bench: Bench, directory: Path) -> None:
    batch = _batch(BATCH_BYTES)
    medians = median_of_rounds(
        {
            "pwrite": lambda: _bare_writes(directory / "bare", batch),
            "log": lambda: _log_appends(directory / "log-0", batch),
        },
        ROUNDS,
    )
    bench.record("append of 16 KiB", APPENDS * len(batch) / 1e6 / medians["log"], "MB/s")
    bench.record("time per append", medians["log"] / APPENDS * 1e6, "us")
    bench.record(
        "append with CRC check",
        medians["pwrite"] / medians["log"],
        "ratio",
        compared_with="bare os.pwrite of the same buffers",
        at_least=0.4,
    )


def _bare_writes(path: Path, batch: bytearray) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    position = 0
    for _ in range(APPENDS):
        os.pwrite(descriptor, batch, position)
        position += len(batch)
    os.close(descriptor)


def _log_appends(folder: Path, batch: bytearray) -> None:
    log = _open(folder, TopicSettings())
    append = log.append_as_leader
    for _ in range(APPENDS):
        batch[:8] = bytes(8)
        append(batch, leader_epoch=0, now_ms=NOW_MS)
    log.start_over(0, now_ms=NOW_MS)
    log.discard()


def _measure_lookups(bench: Bench, directory: Path) -> None:
    seconds: dict[int, Callable[[], None]] = {}
    for segments in (10, 1000):
        log = _filled(directory / f"look-{segments}", segments)
        rng = random.Random(segments)
        offsets = [rng.randrange(log.end_offset) for _ in range(2000)]
        seconds[segments] = _lookups(log, offsets)
    medians = median_of_rounds({str(key): value for key, value in seconds.items()}, ROUNDS)
    bench.record("look-up by offset, 1,000 segments", medians["1000"] / 2000 * 1e6, "us")
    bench.record(
        "look-up, 1,000 segments against 10",
        medians["1000"] / medians["10"],
        "ratio",
        compared_with="the same look-up in a log of 10 segments",
        at_most=2.0,
    )


def _lookups(log: UnifiedLog, offsets: list[int]) -> Callable[[], None]:
    def run() -> None:
        body, end_offset = log.local_log, log.end_offset
        for offset in offsets:
            body.read(offset, max_bytes=1, bound_offset=end_offset, at_least_one=True)

    return run


def _measure_opening(bench: Bench, directory: Path) -> None:
    folder = directory / "many-0"
    log = _filled(folder, MANY_SEGMENTS)
    end_offset = log.end_offset
    log.close()
    started = time.perf_counter()
    again = _open(folder, _tiny(), recovery_point=end_offset)
    elapsed = time.perf_counter() - started
    assert (again.end_offset, len(again.local_log.segments)) == (end_offset, MANY_SEGMENTS)
    bench.record(
        "open 10,000 segments after a clean stop",
        elapsed,
        "s",
        compared_with="3 s",
        at_most=3.0,
    )


def _filled(folder: Path, segments: int) -> UnifiedLog:
    """Create a log of `segments` segments with a few batches each, without syncing."""
    log = _open(folder, _tiny(), disk=_HastyDisk())
    batch = _batch(2000)
    while len(log.local_log.segments) < segments or not log.local_log.segments.active.size:
        batch[:8] = bytes(8)
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    return log


def _tiny() -> TopicSettings:
    return TopicSettings(segment_bytes=16_000)


class _HastyFile(OsFile):
    """Pretends to be synced."""

    __slots__ = ()

    def sync(self) -> None:
        return


class _HastyDisk(OsDisk):
    """For logs that are only read, where thousands of syncs would take minutes."""

    def open(self, path: PurePath, *, create: bool = False, is_kept: bool = False) -> OsFile:
        return _HastyFile(super().open(path, create=create, is_kept=is_kept).fileno(), path)

    def sync_directory(self, path: PurePath) -> None:
        del path


class _ZeroRandom:
    """Random source that always returns zero."""

    def below(self, limit: int) -> int:
        del limit
        return 0

    def bytes(self, count: int) -> bytes:
        return bytes(count)


def _open(
    folder: Path,
    settings: TopicSettings,
    *,
    recovery_point: int = 0,
    disk: OsDisk | None = None,
) -> UnifiedLog:
    disk = disk or OsDisk()
    place = LogLocation(
        disk=disk,
        files=OpenFiles(disk, 4096),
        removals=PendingDeletes(),
        folder=PurePath(folder),
        partition=TopicPartition("bench", 0),
        rng=_ZeroRandom(),
    )
    remembered = CheckpointedState(was_clean=True, recovery_point=recovery_point)
    loaded = load_log(place, settings, remembered, now_ms=NOW_MS)
    events = LogEvents(
        failed=_fail,
        recovery_point_lowered=lambda: None,
        segments_flushed=lambda: None,
        log_start_lowered=lambda: None,
        first_dirty_lowered=lambda: None,
    )
    return UnifiedLog(loaded.parts, executor=InlineExecutor(), events=events)


def _batch(size_bytes: int) -> bytearray:
    """Build one batch of about that size, of 100-byte records."""
    record = Record(value=b"v" * 100, timestamp=NOW_MS)
    return bytearray(build_batch([record] * (size_bytes // 109)))


def _fail(error: StorageError) -> None:
    raise error

"""Recovery of a segment in runs and batch by batch gives the same result."""

import random
from pathlib import PurePath

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.checksum import write_crc
from headwater.records.record import Record
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log import segment_files
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache
from headwater.storage.log.recovery import RecoveryChecker
from headwater.storage.log.segment import LogSegment
from headwater.storage.log.segment_factory import SegmentFactory
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.seeded_random import SeededRandom

FOLDER = PurePath("/orders-0")
BASE_OFFSET = 10
NO_EPOCH_THAT_ANY_BATCH_HAS = -2


class OneByOne(RecoveryChecker):
    """Checks each batch itself, by reporting another leader epoch."""

    @property
    def leader_epoch(self) -> int:
        return NO_EPOCH_THAT_ANY_BATCH_HAS


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Return batches as in a log, perhaps with a few bits changed, perhaps torn."""
    log, offset, epoch = bytearray(), BASE_OFFSET, 0
    for _ in range(draw(st.integers(1, 12))):
        epoch += draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        offset += draw(st.sampled_from([0, 0, 0, 0, 0, 0, 3, -1, 2**31]))
        record = Record(value=b"v" * draw(st.integers(0, 40)), timestamp=draw(st.integers(-1, 9)))
        count = draw(st.integers(1, 3))
        batch = bytearray(
            build_batch(
                [record] * count,
                base_offset=max(offset, 0),
                leader_epoch=max(epoch, 0),
            )
        )
        if draw(st.integers(0, 9)) == 0:
            batch[draw(st.integers(0, len(batch) - 1))] ^= 1 << draw(st.integers(0, 7))
        if draw(st.integers(0, 9)) == 0:
            write_crc(batch, 0, len(batch))
        log += batch
        offset += count
    return bytes(log[: len(log) - draw(st.sampled_from([0, 0, 0, 1, 30]))])


@settings(max_examples=400)
@given(contents(), st.sampled_from([0, 100, 500]))
def test_runs_and_single_batches_give_the_same_result(content: bytes, interval: int) -> None:
    """RC-1"""
    assert recovery_result(content, RecoveryChecker, interval) == recovery_result(
        content, OneByOne, interval
    )


def recovery_result(
    content: bytes, kind: type[RecoveryChecker], interval: int
) -> tuple[object, ...]:
    """Return everything that a recovery decides and writes."""
    disk = LossyDisk(random.Random(1))
    disk.make_directory(FOLDER)
    path = segment_files.path_of(FOLDER, BASE_OFFSET, segment_files.LOG)
    disk.open(path, create=True).write([content], 0)
    home = SegmentFactory(
        disk=disk, files=OpenFiles(disk, 8), folder=FOLDER, rng=SeededRandom(random.Random(1))
    )
    home.configure(TopicSettings(index_interval_bytes=interval))
    segment = LogSegment(home, BASE_OFFSET, size=len(content), created_ms=0)
    epochs = LeaderEpochFileCache()
    judge = kind(epochs, [], BASE_OFFSET)
    refusal = segment.rebuild(judge)
    indexes = [disk.open(each.path).read(10_000, 0) for each in segment.cached_files()[1:]]
    return (
        type(refusal),
        segment.size,
        segment.largest_timestamp,
        segment.offset_of_largest_timestamp,
        segment.first_timestamp,
        judge.next_offset,
        epochs.entries(),
        indexes,
    )

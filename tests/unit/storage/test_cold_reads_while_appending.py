"""A returning consumer of cold data finds its position without a disk read."""

from headwater.records.batch_header import Buffer, read_header
from headwater.records.kernel import last_header
from headwater.storage.io.file_range import FileRange
from headwater.storage.log.sequential_read_hints import SequentialReadHints
from headwater.storage.log.unified_log import ReadBound
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.log_lab import LogLab

AMID_THE_SECOND = 180


def reopened() -> LogLab:
    """Ten batches of three records in a reopened log without known positions."""
    lab = LogLab()
    for _ in range(10):
        lab.append(3)
    lab.reopen()
    return lab


def read(lab: LogLab, offset: int, max_bytes: int) -> FileRange:
    found = lab.log.read(offset, max_bytes=max_bytes, bound=ReadBound.LOG_END).range
    assert found is not None
    return found


def delivered(lab: LogLab, found: FileRange) -> Buffer:
    content = found.read()
    body = lab.log.local_log
    body.remember_read(found, last_header(content), truncations=body.truncations)
    return content


def test_incomplete_last_batch_of_a_response_is_found_without_reading() -> None:
    lab = reopened()
    first = read(lab, 0, AMID_THE_SECOND)
    size = read_header(delivered(lab, first)).size_bytes
    assert size < AMID_THE_SECOND - 61, "the header of the second batch is within"
    assert isinstance(lab.disk, LossyDisk)
    lab.disk.fail_next_read("*.log")
    second = read(lab, 3, 100)
    assert (second.position, second.length) == (size, size)


def test_complete_last_batch_of_a_response_is_not_remembered() -> None:
    lab = reopened()
    size = read_header(read(lab, 0, 200).read()).size_bytes
    delivered(lab, read(lab, 0, 2 * size))
    assert lab.log.local_log.segments[0]._expected.find(3) is None


def test_hints_are_dropped_by_truncation_and_late_ones_ignored() -> None:
    lab = reopened()
    found = read(lab, 0, AMID_THE_SECOND)
    content, before = delivered(lab, found), lab.log.local_log.truncations
    lab.log.truncate_to(3, now_ms=lab.now_ms)
    segment = lab.log.local_log.segments[0]
    assert segment._expected.find(3) is None
    lab.append(30)
    lab.log.local_log.remember_read(found, last_header(content), truncations=before)
    assert segment._expected.find(3) is None


def test_only_the_newest_hints_are_kept() -> None:
    expected = SequentialReadHints()
    header = read_header(read(reopened(), 0, 200).read())
    for offset in range(1, 9):
        expected.add(100 * offset, header._replace(base_offset=offset))
    expected.add(100, header._replace(base_offset=1))
    expected.add(900, header._replace(base_offset=9))
    known = [offset for offset in range(10) if expected.find(offset) is not None]
    assert known == [1, 3, 4, 5, 6, 7, 8, 9]

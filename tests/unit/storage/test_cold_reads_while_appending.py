"""A reader of cold data that comes back finds its place without a look at the disk."""

from headwater.records.batch_header import Buffer, read_header
from headwater.storage.io.file_range import FileRange
from headwater.storage.log.sequential_read_hints import SequentialReadHints
from headwater.storage.log.unified_log import ReadBound
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.log_lab import LogLab

AMID_THE_SECOND = 180


def opened_anew() -> LogLab:
    """Ten batches of three records, and nothing known of where they lie."""
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
    lab.log.body.note_read(found, content, truncations=lab.log.body.truncations)
    return content


def test_the_batch_that_an_answer_cut_is_found_without_reading() -> None:
    lab = opened_anew()
    first = read(lab, 0, AMID_THE_SECOND)
    size = read_header(delivered(lab, first)).size_bytes
    assert size < AMID_THE_SECOND - 61, "the header of the second batch is within"
    assert isinstance(lab.disk, LossyDisk)
    lab.disk.fail_next_read("*.log")
    second = read(lab, 3, 100)
    assert (second.position, second.length) == (size, size)


def test_a_batch_that_an_answer_had_whole_is_not_expected() -> None:
    lab = opened_anew()
    size = read_header(read(lab, 0, 200).read()).size_bytes
    delivered(lab, read(lab, 0, 2 * size))
    assert lab.log.body.segments[0]._expected.find(3) is None


def test_after_a_cut_nothing_is_expected_and_late_news_are_not_believed() -> None:
    lab = opened_anew()
    found = read(lab, 0, AMID_THE_SECOND)
    content, before = delivered(lab, found), lab.log.body.truncations
    lab.log.truncate_to(3, now_ms=lab.now_ms)
    segment = lab.log.body.segments[0]
    assert segment._expected.find(3) is None
    lab.append(30)
    lab.log.body.note_read(found, content, truncations=before)
    assert segment._expected.find(3) is None


def test_only_the_youngest_places_are_kept() -> None:
    expected = SequentialReadHints()
    header = read_header(read(opened_anew(), 0, 200).read())
    for offset in range(1, 9):
        expected.add(100 * offset, header._replace(base_offset=offset))
    expected.add(100, header._replace(base_offset=1))
    expected.add(900, header._replace(base_offset=9))
    known = [offset for offset in range(10) if expected.find(offset) is not None]
    assert known == [1, 3, 4, 5, 6, 7, 8, 9]

"""Positions of the files source."""

import json

from headwater.connect.seen_files import MARKS_MAX, FolderFile, SeenFiles

NOON_NS = 1_700_000_000_000_000_000


def file(name: str, changed_ns: int = NOON_NS, *, written_ns: int = 0) -> FolderFile:
    return FolderFile(name=name, size_bytes=3, written_ns=written_ns, changed_ns=changed_ns)


def read(*files: FolderFile) -> SeenFiles:
    return SeenFiles().with_more(files, files)


def test_read_files_are_known_and_others_are_new() -> None:
    seen = read(file("b"))
    assert seen.has(file("b"))
    assert not seen.has(file("a"))
    assert not seen.has(file("c"))
    assert not seen.has(file("b", written_ns=1))


def test_file_times_do_not_decide_whether_a_file_was_read() -> None:
    seen = read(file("b"))
    assert not seen.has(file("a", 0))
    assert seen.has(file("b", 0))
    assert seen.has(file("b", 2 * NOON_NS))


def test_deleted_file_is_dropped() -> None:
    new = file("b")
    seen = read(file("a")).with_more([new], [new])
    assert seen == read(new)


def test_only_the_newest_of_very_many_files_have_marks() -> None:
    files = [file(f"{number:05}", NOON_NS + number) for number in range(MARKS_MAX + 5)]
    seen = read(*files[:10]).with_more(files[10:], files)
    assert len(seen.marks) == MARKS_MAX
    assert all(seen.has(each) for each in files)
    assert not seen.has(file("late", NOON_NS + 5))
    # This one appeared too late.
    assert seen.has(file("late", NOON_NS + 3))
    assert len(json.dumps(seen.position())) < 110_000


def test_all_files_get_marks_after_the_directory_has_shrunk() -> None:
    files = [file(str(number), NOON_NS + number) for number in range(6)]
    seen = SeenFiles().with_more(files[:5], files[:5], marks_max=4)
    assert seen.up_to == files[0].stamp
    later = seen.with_more(files[5:], files[3:], marks_max=4)
    assert later == read(*files[3:])


def test_position_round_trips_through_json() -> None:
    files = [file(str(number), NOON_NS + number) for number in range(6)]
    seen = SeenFiles().with_more(files, files, marks_max=4)
    assert SeenFiles.of(json.loads(json.dumps(seen.position()))) == seen
    assert SeenFiles.of({}) == SeenFiles()

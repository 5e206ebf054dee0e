"""What a position says of the files of a folder."""

import json

from headwater.connect.seen_files import MARKS_MAX, FolderFile, SeenFiles

NOON_NS = 1_700_000_000_000_000_000


def file(name: str, changed_ns: int = NOON_NS, *, written_ns: int = 0) -> FolderFile:
    return FolderFile(name=name, size_bytes=3, written_ns=written_ns, changed_ns=changed_ns)


def read(*files: FolderFile) -> SeenFiles:
    return SeenFiles().with_more(files, files)


def test_files_that_were_read_are_known_and_others_are_new() -> None:
    seen = read(file("b"))
    assert seen.has(file("b"))
    assert not seen.has(file("a"))
    assert not seen.has(file("c"))
    assert not seen.has(file("b", written_ns=1))


def test_no_time_makes_a_new_file_an_old_one_or_the_other_way_round() -> None:
    seen = read(file("b"))
    assert not seen.has(file("a", 0))
    assert seen.has(file("b", 0))
    assert seen.has(file("b", 2 * NOON_NS))


def test_a_file_that_is_gone_is_forgotten() -> None:
    new = file("b")
    seen = read(file("a")).with_more([new], [new])
    assert seen == read(new)


def test_of_very_many_files_the_last_ones_have_marks() -> None:
    files = [file(f"{number:05}", NOON_NS + number) for number in range(MARKS_MAX + 5)]
    seen = read(*files[:10]).with_more(files[10:], files)
    assert len(seen.marks) == MARKS_MAX
    assert all(seen.has(each) for each in files)
    assert not seen.has(file("late", NOON_NS + 5))
    # This one has come too late.
    assert seen.has(file("late", NOON_NS + 3))
    assert len(json.dumps(seen.position())) < 110_000


def test_a_folder_that_has_become_smaller_is_known_file_by_file() -> None:
    files = [file(str(number), NOON_NS + number) for number in range(6)]
    seen = SeenFiles().with_more(files[:5], files[:5], marks_max=4)
    assert seen.up_to == files[0].stamp
    later = seen.with_more(files[5:], files[3:], marks_max=4)
    assert later == read(*files[3:])


def test_a_position_survives_json() -> None:
    files = [file(str(number), NOON_NS + number) for number in range(6)]
    seen = SeenFiles().with_more(files, files, marks_max=4)
    assert SeenFiles.of(json.loads(json.dumps(seen.position()))) == seen
    assert SeenFiles.of({}) == SeenFiles()

"""What a position says of the files of a folder."""

import json

from headwater.pipeline.connect.seen_files import NAMES_MAX, WINDOW_NS, SeenFiles, Stamp

NOON_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def read(*files: Stamp) -> SeenFiles:
    return SeenFiles().with_more(files)


def test_files_that_were_read_are_known_and_others_are_new() -> None:
    seen = read((NOON_NS, "b"))
    assert seen.has((NOON_NS, "b"))
    assert not seen.has((NOON_NS, "a"))
    assert not seen.has((NOON_NS, "c"))
    assert not seen.has((NOON_NS + 1, "b"))


def test_a_file_that_comes_after_the_clock_was_set_back_is_new() -> None:
    seen = read((NOON_NS, "b"))
    assert not seen.has((NOON_NS - 59 * SECOND_NS, "a"))
    later = seen.with_more([(NOON_NS - 59 * SECOND_NS, "a")])
    assert later.has((NOON_NS - 59 * SECOND_NS, "a"))
    assert later.has((NOON_NS, "b"))


def test_names_are_forgotten_after_a_minute_and_their_files_are_not_read_again() -> None:
    seen = read((NOON_NS, "a")).with_more([(NOON_NS + WINDOW_NS + 1, "b")])
    assert list(seen.named) == ["b"]
    assert seen.has((NOON_NS, "a"))


def test_of_very_many_files_at_once_the_last_ones_are_named() -> None:
    files = [(NOON_NS + number, f"{number:05}") for number in range(3 * NAMES_MAX)]
    seen = read(*files[:10]).with_more(files[10:])
    assert len(seen.named) == NAMES_MAX
    assert all(seen.has(file) for file in files)
    assert not seen.has((NOON_NS + 2 * NAMES_MAX + 5, "late"))


def test_a_position_that_stood_for_all_files_up_to_one_still_does() -> None:
    seen = SeenFiles.of({"changed_ns": NOON_NS, "name": "b"})
    assert seen.has((NOON_NS, "a"))
    assert seen.has((NOON_NS, "b"))
    assert not seen.has((NOON_NS, "c"))
    # What was read before is not read again, though it has no name in the next position.
    assert seen.with_more([(NOON_NS, "c")]).has((NOON_NS, "a"))
    assert SeenFiles.of({}) == SeenFiles()


def test_a_position_survives_json() -> None:
    seen = read((NOON_NS, "a"), (NOON_NS + 5, "b"))
    assert SeenFiles.of(json.loads(json.dumps(seen.position()))) == seen

"""The segment cache's table against a model that knows every byte."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.io.cache_table import (
    EXTENT_BYTES,
    CacheTable,
    Extent,
    ExtentId,
    Piece,
    SecondReads,
    Segment,
)

LIMIT = 3 * EXTENT_BYTES
UNIT = EXTENT_BYTES // 8

READS = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 40), st.integers(1, 9))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), READS, st.integers(1, 2)),
        st.tuples(st.just("find"), READS),
        st.tuples(st.just("written"), st.integers(0, 9)),
        st.tuples(st.just("not written"), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.integers(0, 2)),
        st.tuples(st.just("drop all")),
    ),
    max_size=80,
)


class Model:
    """Bytes by extent number, as the caller's files would have them."""

    def __init__(self, min_reads: int) -> None:
        self.table = CacheTable(LIMIT, min_reads=min_reads)
        self.newest: dict[object, int] = {}
        self.files: dict[int, list[tuple[Segment, int, int]]] = {}
        self.writes: list[tuple[Extent, list[Piece]]] = []

    def remove_dropped(self) -> None:
        for extent in self.table.take_dropped():
            assert extent.is_dropped
            assert not extent.holds
            self.files.pop(extent.number, None)

    def admit(self, segment: Segment, start: int, end: int, readers: int) -> None:
        admitted = self.table.admit(segment, start, end, readers=readers)
        self.remove_dropped()
        if admitted is None:
            return
        extent, pieces = admitted
        assert segment.generation >= self.newest.get(segment.file, 0)
        self.newest[segment.file] = segment.generation
        extent.holds += 1
        self.writes.append(admitted)
        taken = self.files.setdefault(extent.number, [])
        for piece in pieces:
            assert start <= piece.start < piece.end <= end
            assert all(b <= piece.start or a >= piece.end for _, a, b in taken), "written twice"
            taken.append((segment, piece.start, piece.end))
        assert self.used() <= LIMIT

    def end_write(self, place: int, *, fails: bool) -> None:
        extent, pieces = self.writes.pop(place % len(self.writes))
        if fails:
            self.table.not_written(extent, pieces)
            for piece in pieces:
                self.files[extent.number].remove((extent.id.segment, piece.start, piece.end))
        else:
            for piece in pieces:
                piece.checksum = 1
        extent.holds -= 1
        self.remove_dropped()

    def find(self, segment: Segment, start: int, end: int) -> None:
        found = self.table.find(segment, start, end)
        if found is None:
            return
        extent, pieces = found
        assert segment.generation >= self.newest.get(segment.file, 0), "another state of the log"
        held = [(a, b) for owner, a, b in self.files[extent.number] if owner == segment]
        for piece in pieces:
            assert piece.is_written
            assert (piece.start, piece.end) in held
        assert pieces[0].start <= start
        assert pieces[-1].end >= end
        assert all(a.end == b.start for a, b in pairwise(pieces))

    def used(self) -> int:
        return sum(b - a for pieces in self.files.values() for _, a, b in pieces)


@given(st.integers(1, 2), STEPS)
def test_found_ranges_are_written_and_current_and_space_is_bounded(
    min_reads: int, steps: list[tuple[object, ...]]
) -> None:
    model = Model(min_reads)

    def place_of(read: object) -> tuple[Segment, int, int]:
        assert isinstance(read, tuple)
        file, generation, start, length = read
        return Segment(f"file {file}", generation), start * UNIT, (start + length) * UNIT

    for step in steps:
        match step:
            case ("admit", read, int(readers)):
                model.admit(*place_of(read), readers)
            case ("find", read):
                model.find(*place_of(read))
            case ("written", int(place)) if model.writes:
                model.end_write(place, fails=False)
            case ("not written", int(place)) if model.writes:
                model.end_write(place, fails=True)
            case ("forget", file):
                model.table.forget(f"file {file}")
                model.newest.pop(f"file {file}", None)
                model.remove_dropped()
            case ("drop all",):
                model.table.drop_all()
                model.remove_dropped()
        assert model.used() == model.table.used_bytes
    while model.writes:
        model.end_write(0, fails=False)
    model.table.drop_all()
    model.remove_dropped()
    assert (model.table.used_bytes, model.files) == (0, {})


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=40))
def test_second_reads_are_recognized_by_half_of_their_bytes(reads: list[tuple[int, int]]) -> None:
    first_reads = SecondReads(10)
    extent = ExtentId(Segment("file", 0), 0)
    seen: dict[int, None] = {}
    for start, length in reads:
        again = sum(byte in seen for byte in range(start, start + length))
        assert first_reads.note(extent, start, start + length) == (2 * again >= length)
        seen.update(dict.fromkeys(range(start, start + length)))


def test_first_reads_are_remembered_within_bounds() -> None:
    first_reads = SecondReads(3)
    for ordinal in range(10):
        first_reads.note(ExtentId(Segment("file", 0), ordinal), 0, 10)
    assert len(first_reads) == 3
    assert first_reads.note(ExtentId(Segment("file", 0), 9), 0, 10)
    assert not first_reads.note(ExtentId(Segment("file", 0), 0), 0, 10)
    for start in range(0, 2_000, 4):
        first_reads.note(ExtentId(Segment("sparse", 0), 0), start, start + 1)
    assert first_reads.note(ExtentId(Segment("sparse", 0), 0), 1_996, 1_997)


def fill(table: CacheTable, file: str) -> Extent:
    admitted = table.admit(Segment(file, 0), 0, EXTENT_BYTES, readers=2)
    assert admitted is not None
    extent, pieces = admitted
    for piece in pieces:
        piece.checksum = 1
    return extent


def test_least_recently_used_extent_is_evicted_and_a_held_one_is_not() -> None:
    table = CacheTable(LIMIT, min_reads=2)
    first, second, third = (fill(table, name) for name in ("a", "b", "c"))
    assert table.find(Segment("a", 0), 10, 20) is not None
    second.holds += 1
    fill(table, "d")
    assert table.take_dropped() == [third]
    assert list(table)[:2] == [second, first]
    assert table.eviction_count == 1


def test_nothing_is_evicted_if_that_makes_no_room() -> None:
    table = CacheTable(LIMIT, min_reads=2)
    extents = [fill(table, name) for name in ("a", "b", "c")]
    for extent in extents[1:]:
        extent.holds += 1
    assert table.admit(Segment("d", 0), 0, EXTENT_BYTES + 1, readers=2) is None
    assert (list(table), table.eviction_count) == (extents, 0)


def test_range_across_extents_is_kept_with_the_one_in_which_it_begins() -> None:
    table = CacheTable(LIMIT, min_reads=1)
    start, end = EXTENT_BYTES - 10, EXTENT_BYTES + 10
    admitted = table.admit(Segment("a", 0), start, end, readers=1)
    assert admitted is not None
    admitted[1][0].checksum = 1
    assert table.find(Segment("a", 0), start, end) is not None
    assert table.find(Segment("a", 0), EXTENT_BYTES, end) is None

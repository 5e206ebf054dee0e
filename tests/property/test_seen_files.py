"""A directory whose files appear, disappear and change their times, read batch by batch."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.connect.seen_files import FolderFile, SeenFiles

# A file appears at a time, or the one with that index disappears or gets another time, or all is
# read.
COME, GO, TOUCH, READ = range(4)
STEPS = st.lists(
    st.tuples(st.sampled_from((COME, COME, GO, TOUCH, READ)), st.integers(0, 30)), max_size=60
)


class Folder:
    """Directory as a source sees it."""

    def __init__(self, marks_max: int, limit: int) -> None:
        self.marks_max, self.limit = marks_max, limit
        self.there: dict[str, int] = {}
        self.seen = SeenFiles()
        self.read: list[str] = []
        self.count = 0

    def come(self, at_ns: int) -> None:
        self.there[f"{self.count:03}"] = at_ns
        self.count += 1

    def read_on(self) -> bool:
        files = sorted(
            (
                FolderFile(name=name, size_bytes=1, written_ns=1, changed_ns=at_ns)
                for name, at_ns in self.there.items()
            ),
            key=lambda file: file.stamp,
        )
        new = [each for each in files if not self.seen.has(each)][: self.limit]
        if new:
            after = self.seen.with_more(new, files, marks_max=self.marks_max)
            assert len(after.marks) <= self.marks_max
            batch = [each for each in files if after.has(each) and not self.seen.has(each)]
            assert batch == new
            self.read += [each.name for each in batch]
            self.seen = SeenFiles.of(after.position())
        return bool(new)

    def finish(self) -> None:
        batches = 0
        while self.read_on():
            batches += 1
            assert batches <= self.count, "it is read again and again"
        assert set(self.there) <= set(self.read)
        assert len(set(self.read)) == len(self.read)


@given(STEPS, st.integers(1, 5))
def test_every_file_is_read_once_whatever_the_clock_does(
    steps: list[tuple[int, int]], limit: int
) -> None:
    folder = Folder(marks_max=100, limit=limit)
    for kind, number in steps:
        names = list(folder.there)
        if kind == COME:
            folder.come(number)
        elif kind == READ:
            folder.read_on()
        elif names and kind == GO:
            del folder.there[names[number % len(names)]]
        elif names:
            folder.there[names[number % len(names)]] = number // 2
    folder.finish()


@given(STEPS, st.integers(1, 5), st.integers(1, 5))
def test_every_file_is_read_once_even_if_there_are_more_than_tracked(
    steps: list[tuple[int, int]], limit: int, marks_max: int
) -> None:
    folder = Folder(marks_max=marks_max, limit=limit)
    now_ns = 0
    for kind, number in steps:
        names = list(folder.there)
        if kind == COME:
            now_ns += 1 + number % 3
            folder.come(now_ns)
        elif kind == READ:
            folder.read_on()
        elif names and kind == GO:
            del folder.there[names[number % len(names)]]
    folder.finish()

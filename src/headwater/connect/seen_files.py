"""Which files of a folder were read already, as far as a position says.

The files that were read and are still there are marked, each with eight bytes. What a reader would
get wrong: no clock is asked. A file that comes later need not have a later time, since clocks are
set back, and the time of a file that was read may change, since somebody changes its rights. Only
of more than `MARKS_MAX` files in one folder the oldest are known by their time alone.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.connect.connector import Position

Stamp = tuple[int, str]
"""When a file got its name, in nanoseconds, and the name."""

MARKS_MAX: Final = 10_000
"""A position is written for each batch, and this makes it 107 kB long."""

_MARK_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFile:
    """A file as its folder has it. One that was written anew is another one."""

    name: str
    size_bytes: int
    written_ns: int
    # The time of its last change of name, of rights, or of links to it.
    changed_ns: int
    mark: bytes = field(init=False, compare=False)

    def __post_init__(self) -> None:
        told = f"{self.size_bytes} {self.written_ns} {self.name}".encode(errors="surrogateescape")
        mark = hashlib.blake2b(told, digest_size=_MARK_BYTES).digest()
        object.__setattr__(self, "mark", mark)

    @property
    def stamp(self) -> Stamp:
        return self.changed_ns, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFiles:
    """The files that a position stands for: those with a mark, and all up to a stamp."""

    marks: frozenset[bytes] = frozenset()
    up_to: Stamp = (-1, "")
    # Positions of former versions have names with times for the last minute.
    named: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, position: Position) -> "SeenFiles":
        raw = base64.b64decode(position.get("marks", ""))
        marks = frozenset(
            raw[index : index + _MARK_BYTES] for index in range(0, len(raw), _MARK_BYTES)
        )
        up_to = position.get("changed_ns", -1), position.get("name", "")
        return cls(marks=marks, up_to=up_to, named=position.get("seen", {}))

    def position(self) -> Position:
        assert not self.named, "only what was read has names"
        marks = base64.b64encode(b"".join(sorted(self.marks))).decode()
        return {"changed_ns": self.up_to[0], "name": self.up_to[1], "marks": marks}

    def has(self, file: FolderFile) -> bool:
        return (
            file.mark in self.marks
            or file.stamp <= self.up_to
            or self.named.get(file.name) == file.changed_ns
        )

    def with_more(
        self,
        new: Iterable[FolderFile],
        there: Iterable[FolderFile],
        *,
        marks_max: int = MARKS_MAX,
    ) -> "SeenFiles":
        """After some new files were read, the oldest first, of those that are there.

        What is gone from the folder is forgotten. No stamp is passed that an unread file may have:
        there are never more marks than `marks_max`, so no more are given up than files are new.
        """
        marks = {file.mark for file in new}
        read = sorted(
            (file for file in there if file.mark in marks or self.has(file)),
            key=lambda file: file.stamp,
        )
        known, marked = read[:-marks_max], read[-marks_max:]
        return SeenFiles(
            marks=frozenset(file.mark for file in marked),
            up_to=known[-1].stamp if known else (-1, ""),
        )

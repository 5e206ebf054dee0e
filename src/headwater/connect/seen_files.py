"""Positions of the files source: which files of a directory were already read.

A position has an eight-byte hash of each file that was read and still exists.

Note: times are not compared. A later file need not have a later time, since clocks are set back,
and a file's ctime changes with its permissions. Only beyond `MARKS_MAX` files in one directory, the
oldest ones are identified by their time alone.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.connect.connector import Position

Stamp = tuple[int, str]
"""A file's ctime in nanoseconds, and its name."""

MARKS_MAX: Final = 10_000
"""A position is written for each batch; this limits it to 107 kB."""

_MARK_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFile:
    """A file of the directory. A rewritten file counts as a new one."""

    name: str
    size_bytes: int
    written_ns: int
    # ctime: the last change of name, permissions or links.
    changed_ns: int
    mark: bytes = field(init=False, compare=False)

    def __post_init__(self) -> None:
        content = f"{self.size_bytes} {self.written_ns} {self.name}".encode(
            errors="surrogateescape"
        )
        mark = hashlib.blake2b(content, digest_size=_MARK_BYTES).digest()
        object.__setattr__(self, "mark", mark)

    @property
    def stamp(self) -> Stamp:
        return self.changed_ns, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFiles:
    """The files that a position covers: those with a mark, and all up to a stamp."""

    marks: frozenset[bytes] = frozenset()
    up_to: Stamp = (-1, "")
    # Positions of earlier versions: names and times of the last minute's files.
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
        assert not self.named, "only positions of earlier versions have names"
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
        """Add new files that were read, oldest first; `there` are all existing files.

        Deleted files are dropped. `up_to` never passes a stamp that an unread file may have: there
        are never more marks than `marks_max`, so no more files lose their mark than new ones are
        added.
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

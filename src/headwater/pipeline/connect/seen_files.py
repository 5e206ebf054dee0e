"""Which files of a folder were read already, as far as a position says.

Everything up to a stamp was read, and above it the files that are named. What a reader would get
wrong: a file that comes later need not have a later stamp. The clock of a file system stands still
for milliseconds, and is set back now and then. So the stamp stays a minute behind the last file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.pipeline.connect.connector import Position

Stamp = tuple[int, str]
"""When a file got its name, in nanoseconds, and the name."""

WINDOW_NS: Final = 60 * 1_000_000_000
# Of a folder that is filled at once. So many files do not come within one tick of a clock.
NAMES_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class SeenFiles:
    """The files that a position stands for."""

    up_to: Stamp = (-1, "")
    named: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, position: Position) -> "SeenFiles":
        """Positions of former versions name no files."""
        up_to = position.get("changed_ns", -1), position.get("name", "")
        return cls(up_to, position.get("seen", {}))

    def position(self) -> Position:
        return {"changed_ns": self.up_to[0], "name": self.up_to[1], "seen": dict(self.named)}

    def has(self, file: Stamp) -> bool:
        changed_ns, name = file
        return file <= self.up_to or self.named.get(name) == changed_ns

    def with_more(self, files: Iterable[Stamp]) -> "SeenFiles":
        named = {**self.named, **{name: changed_ns for changed_ns, name in files}}
        ordered = sorted((changed_ns, name) for name, changed_ns in named.items())
        if not ordered:
            return self
        up_to = max(self.up_to, (ordered[-1][0] - WINDOW_NS, ""), *ordered[:-NAMES_MAX])
        kept = {name: changed_ns for changed_ns, name in ordered if (changed_ns, name) > up_to}
        return SeenFiles(up_to, kept)

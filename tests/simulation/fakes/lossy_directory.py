"""Names on the lossy disk: directories, and the order in which changes become durable."""

import random
from dataclasses import dataclass, field
from typing import Union

from tests.simulation.fakes.lossy_file import Inode

Node = Union[Inode, "Directory"]


@dataclass(slots=True, eq=False)
class Directory:
    """Current content of a directory, and what of it is durable."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)

    def holds(self, other: "Directory") -> bool:
        """Return whether the other directory is this one or below it."""
        return self is other or any(
            isinstance(node, Directory) and node.holds(other) for node in self.entries.values()
        )

    def inodes(self) -> list[Inode]:
        """All files in here and below, each once."""
        found: dict[Inode, None] = {}
        for name in sorted(self.entries):
            node = self.entries[name]
            found.update(dict.fromkeys(node.inodes() if isinstance(node, Directory) else [node]))
        return list(found)

    def inodes_left_after_cut(self) -> list[Inode]:
        """Fall back to what is durable, recursively; return the remaining files."""
        self.entries = dict(self.durable)
        found: dict[Inode, None] = {}
        for name in sorted(self.entries):
            node = self.entries[name]
            left = node.inodes_left_after_cut() if isinstance(node, Directory) else [node]
            found.update(dict.fromkeys(left))
        return list(found)


@dataclass(frozen=True, slots=True, eq=False)
class NameOperation:
    """One atomic change of names: each becomes a node, or is removed (None)."""

    changes: list[tuple[Directory, str, Node | None]]


@dataclass(slots=True)
class NameJournal:
    """Changes of names that are not durable yet, oldest first, of all directories."""

    pending: list[NameOperation] = field(default_factory=list)

    def add(self, operation: NameOperation) -> None:
        for directory, name, node in operation.changes:
            _set(directory.entries, name, node)
        self.pending.append(operation)

    def sync(self, directory: Directory) -> None:
        """Make all changes of the directory durable.

        A rename that involves a second directory includes what was pending there before it.
        """
        involved = {directory: None}
        synced: list[NameOperation] = []
        left: list[NameOperation] = []
        for operation in reversed(self.pending):
            touched = [directory for directory, _, _ in operation.changes]
            if any(directory in involved for directory in touched):
                involved.update(dict.fromkeys(touched))
                synced.append(operation)
            else:
                left.append(operation)
        for operation in reversed(synced):
            _make_durable(operation)
        self.pending = left[::-1]

    def cut(self, rng: random.Random) -> None:
        """Per directory, a prefix of the pending changes survives."""
        stopped: dict[Directory, None] = {}
        # Sometimes nearly everything survives and sometimes nearly nothing: both find bugs.
        chance = rng.random()
        for operation in self.pending:
            touched = [directory for directory, _, _ in operation.changes]
            if all(directory not in stopped for directory in touched) and rng.random() < chance:
                _make_durable(operation)
            else:
                stopped.update(dict.fromkeys(touched))
        self.pending = []


def _make_durable(operation: NameOperation) -> None:
    for directory, name, node in operation.changes:
        _set(directory.durable, name, node)


def _set(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node

"""Positions in changes: where a snapshot or the stream continues.

    {"lsn": "0/16B3748", "index": 0, "ms": 1700000000000, "tables": ["public.orders"], ...}

`lsn` is the end of the last transaction that was read. If a large transaction was read in part,
`lsn` is the LSN of its commit and `index` the number of its changes that were read. `tables` are
the tables whose snapshot is complete. While a snapshot is taken, `table` and `after` tell up to
which primary key rows were read, and `chunk` names the last chunk of rows.

How a snapshot and the stream fit together: the slot is created first, so the stream has every
transaction that commits from then on. The snapshot is a later REPEATABLE READ transaction; some
transactions of the stream are therefore visible in it. `ranges` holds PostgreSQL's description of
the snapshot (`pg_current_snapshot`), and the stream leaves out the changes that are visible in it.
Each change is thus either in the snapshot or in the stream. A snapshot that was interrupted
continues as another REPEATABLE READ transaction, with a range of its own from that key on.
"""

from dataclasses import dataclass, replace
from typing import Any

from headwater.connect.postgresql_cdc.pgoutput import Lsn, format_lsn, parse_lsn


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleTransactions:
    """Which transactions a snapshot contains, from the text of `pg_current_snapshot`.

    `end_lsn` is a position of the log after the snapshot was taken: later commits are not in it.
    """

    text: str
    end_lsn: Lsn

    def contains(self, xid: int, commit_lsn: Lsn) -> bool:
        """Whether a committed transaction (32-bit xid) is visible in the snapshot."""
        if commit_lsn >= self.end_lsn:
            return False
        _, xmax, listed = self.text.split(":")
        running = {int(each) & 0xFFFFFFFF for each in listed.split(",") if each}
        if xid in running:
            return False
        # The distance to xmax, as PostgreSQL compares xids that wrap around.
        return (int(xmax) - xid) & 0xFFFFFFFF in range(1, 2**31)


KeyTexts = tuple[str, ...]
"""A primary key, each column in PostgreSQL's text format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """Rows of a table after a key (None: all) that were read from one snapshot."""

    table: str
    after: KeyTexts | None
    visible: VisibleTransactions

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "after": None if self.after is None else list(self.after),
            "snapshot": self.visible.text,
            "endLsn": format_lsn(self.visible.end_lsn),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "SnapshotRange":
        after = value["after"]
        visible = VisibleTransactions(text=value["snapshot"], end_lsn=parse_lsn(value["endLsn"]))
        return cls(
            table=value["table"], after=None if after is None else tuple(after), visible=visible
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcPosition:
    """How far the changes were read; see the module."""

    lsn: Lsn
    index: int = 0
    ms: int = 0
    tables: tuple[str, ...] = ()
    ranges: tuple[SnapshotRange, ...] = ()
    # The snapshot in progress.
    table: str | None = None
    after: KeyTexts | None = None
    chunk: str | None = None

    def at(self, lsn: Lsn, index: int = 0, *, ms: int = 0) -> "CdcPosition":
        """A later position of the stream; ranges of tables that it has passed are dropped.

        Note: the first range of a table has all keys, later ones only those after a key. While a
        later one is needed, the first one is too: it tells that the other keys are not in it.
        """
        needed = {each.table for each in self.ranges if lsn < each.visible.end_lsn}
        ranges = tuple(each for each in self.ranges if each.table in needed)
        return replace(self, lsn=lsn, index=index, ms=ms, ranges=ranges, chunk=None)

    def is_same_place(self, other: "CdcPosition") -> bool:
        """Whether the stream continues at the same change."""
        return (self.lsn, self.index, self.ranges) == (other.lsn, other.index, other.ranges)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "lsn": format_lsn(self.lsn),
            "index": self.index,
            "ms": self.ms,
            "tables": list(self.tables),
        }
        if self.ranges:
            found["ranges"] = [each.to_json() for each in self.ranges]
        if self.table is not None:
            found["table"] = self.table
            found["after"] = None if self.after is None else list(self.after)
        if self.chunk is not None:
            found["chunk"] = self.chunk
        return found

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "CdcPosition":
        after = value.get("after")
        return cls(
            lsn=parse_lsn(value["lsn"]),
            index=value["index"],
            ms=value["ms"],
            tables=tuple(value["tables"]),
            ranges=tuple(SnapshotRange.from_json(each) for each in value.get("ranges", [])),
            table=value.get("table"),
            after=None if after is None else tuple(after),
            chunk=value.get("chunk"),
        )

"""File names in a partition directory.

    00000000000000000042.log   .index   .timeindex   .txnindex   .snapshot

The number is a base offset in twenty digits. For a snapshot it is the offset up to which
(exclusive) it covers the producer state. `.deleted`, `.cleaned` and `.swap` are appended to a name.
"""

from dataclasses import dataclass
from pathlib import PurePath

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

INDEX_KINDS = (INDEX, TIME_INDEX, TRANSACTION_INDEX)
SEGMENT_KINDS = (LOG, *INDEX_KINDS)
SUFFIXES = (CLEANED, SWAP, DELETED)

_DIGITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """Parsed file name; `suffix` is empty for a live file."""

    base_offset: int
    kind: str
    suffix: str


def file_name(offset: int, kind: str, suffix: str = "") -> str:
    return f"{offset:0{_DIGITS}d}{kind}{suffix}"


def path_of(folder: PurePath, offset: int, kind: str) -> PurePath:
    return folder / file_name(offset, kind)


def offset_in(name: str, kind: str) -> int | None:
    """Return the offset in a file name, or None if it is not a file of that kind."""
    digits = name.removesuffix(kind)
    if digits == name or len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def parse_name(name: str) -> SegmentFile | None:
    """Parse a segment file's name; None for any other file."""
    digits, rest = name[:_DIGITS], name[_DIGITS:]
    if len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    found = _ENDINGS.get(rest)
    if found is None:
        return None
    return SegmentFile(base_offset=int(digits), kind=found[0], suffix=found[1])


_ENDINGS = {kind + suffix: (kind, suffix) for kind in SEGMENT_KINDS for suffix in ("", *SUFFIXES)}

"""The names of a segment's files, and the suffixes a cleaning puts on them.

The suffix comes after the whole name, `00000000000000000000.log.cleaned`, as in Kafka 3 and 4.
"""

from dataclasses import dataclass

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
INDEXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
KINDS = (LOG, *INDEXES)

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
SUFFIXES = (CLEANED, SWAP, DELETED)

_BASE_DIGITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """A file name taken apart: `suffix` is empty for a file in its place."""

    base_offset: int
    kind: str
    suffix: str


def file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    return f"{base_offset:0{_BASE_DIGITS}d}{kind}{suffix}"


def parse_name(name: str) -> SegmentFile | None:
    """The parts of a segment file's name, or None for any other file."""
    base, rest = name[:_BASE_DIGITS], name[_BASE_DIGITS:]
    if len(base) != _BASE_DIGITS or not (base.isascii() and base.isdigit()):
        return None
    for kind in KINDS:
        for suffix in ("", *SUFFIXES):
            if rest == kind + suffix:
                return SegmentFile(base_offset=int(base), kind=kind, suffix=suffix)
    return None

"""The names of the files in a partition's folder.

    00000000000000000042.log   .index   .timeindex   .txnindex   .snapshot

The number is a base offset in twenty digits; for a snapshot it is the offset up to which, that one
excluded, the producers' state is covered. `.deleted`, `.cleaned` and `.swap` come on top of a name.
"""

from pathlib import PurePath

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

SEGMENT_KINDS = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)

_DIGITS = 20


def file_name(offset: int, kind: str) -> str:
    return f"{offset:0{_DIGITS}d}{kind}"


def path_of(folder: PurePath, offset: int, kind: str) -> PurePath:
    return folder / file_name(offset, kind)


def offset_in(name: str, kind: str) -> int | None:
    """The offset that a file name carries, or None when it is not a file of that kind."""
    digits = name.removesuffix(kind)
    if digits == name or len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)

"""Decide the next step of a log's move, and what to keep of a copy. Pure.

    original   start |------------------------------------| end
    copy             |--------- copied ---------|  left   |

Note: a copy is not compared with its original byte by byte. While both are open it is a prefix of
the original by construction: it grows by what the original holds, and is truncated when that is.
Only a start checks whether this still holds, because one of the two disks may have been offline for
a while, or have lost its end in a power cut.
"""

from dataclasses import dataclass
from enum import Enum

from headwater.common.ids import NO_EPOCH
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSizes:
    """Sizes of the steps of a move."""

    # Read off the event loop and appended on it: blocks the loop for about a millisecond.
    step_bytes: int = 1 << 20
    # Limit of unflushed bytes. With more, a write could block the event loop until the disk catches
    # up.
    unflushed_bytes: int = 16 << 20
    # Copied and flushed at once during the swap, while requests wait.
    final_copy_bytes: int = 1 << 18


class MoveStep(Enum):
    """Next step of a move."""

    START_OVER = "truncate the copy fully and restart at the original's log start"
    COPY = "copy the next bytes"
    FLUSH = "flush the copy off the event loop"
    FINISH = "copy the rest synchronously and replace the original"


def next_step(
    sizes: MoveSizes,
    *,
    copy_end: int,
    original_start: int,
    left_bytes: int,
    unflushed_bytes: int,
) -> MoveStep:
    """Return the next step; the last one, on the event loop, needs little left."""
    if copy_end < original_start:
        return MoveStep.START_OVER
    if left_bytes > sizes.final_copy_bytes:
        return MoveStep.FLUSH if unflushed_bytes >= sizes.unflushed_bytes else MoveStep.COPY
    return MoveStep.FLUSH if unflushed_bytes > sizes.final_copy_bytes else MoveStep.FINISH


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """Extent of a log and its leader epochs.

    A copy starts where its content does; what the original has below the copy's start is
    irrelevant.
    """

    start: int
    end: int
    epochs: LeaderEpochFileCache
    is_compacted: bool


def kept_end(original: LogExtent, copy: LogExtent) -> int | None:
    """Return the end offset of a copy to keep after a restart; None for nothing.

    The copy of a compacted log always starts over: the original may have been compacted without it,
    and may have lost a tombstone whose record is in the copy. So does a copy that starts too late:
    a crash may have undone a DeleteRecords of the original.
    """
    if original.is_compacted or copy.is_compacted or copy.start > original.start:
        return None
    end = min(_agreed_end(original, copy), original.end)
    return end if end >= original.start else None


def _agreed_end(original: LogExtent, copy: LogExtent) -> int:
    """Return where the logs diverge according to their leader epochs (KIP-101)."""
    end = copy.end
    for entry in reversed(copy.epochs.entries()):
        if entry.start_offset >= end:
            continue
        known = original.epochs.end_offset_for(entry.epoch, original.end)
        if known.epoch == entry.epoch and known.epoch != NO_EPOCH:
            return min(end, known.end_offset)
        end = entry.start_offset
    return end

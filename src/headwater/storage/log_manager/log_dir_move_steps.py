"""What the move of a log does next, and how much of a copy that was found can be kept. Pure.

    original   start |------------------------------------| end
    copy             |--------- copied ---------|  left   |

What a reader would get wrong: a copy is not compared with its original byte by byte. While both
are open it is a beginning of it by construction: it grows by what the original holds, and is cut
when that is cut. Only a start looks whether this still holds, because one of two disks may have
been away for a while, or have lost its end in a power cut.
"""

from dataclasses import dataclass
from enum import Enum

from headwater.common.ids import NO_EPOCH
from headwater.storage.log.leader_epoch_checkpoint import LeaderEpochFileCache


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSizes:
    """How much is done at once."""

    # Read off the loop and appended on it: about a millisecond of everybody's time.
    step_bytes: int = 1 << 20
    # What may wait in memory for the other disk. With more the loop could wait for it in a write.
    unflushed_bytes: int = 16 << 20
    # What may be copied, and flushed, while everybody waits for the swap.
    last_lap_bytes: int = 1 << 18


class MoveStep(Enum):
    """What is next."""

    START_OVER = "drop the copy's content, and begin where the original begins now"
    COPY = "copy some more"
    FLUSH = "make the copy durable, off the loop"
    FINISH = "copy the rest here and now, and put the copy in the place of the original"


def next_step(
    sizes: MoveSizes,
    *,
    copy_end: int,
    original_start: int,
    left_bytes: int,
    unflushed_bytes: int,
) -> MoveStep:
    """Little must be left to do on the loop before a move is finished there."""
    if copy_end < original_start:
        return MoveStep.START_OVER
    if left_bytes > sizes.last_lap_bytes:
        return MoveStep.FLUSH if unflushed_bytes >= sizes.unflushed_bytes else MoveStep.COPY
    return MoveStep.FLUSH if unflushed_bytes > sizes.last_lap_bytes else MoveStep.FINISH


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """How far a log goes, and under which leaders it came about.

    A copy starts where its content does; what the original has below its start is of no use.
    """

    start: int
    end: int
    epochs: LeaderEpochFileCache
    is_compacted: bool


def kept_end(original: LogExtent, copy: LogExtent) -> int | None:
    """Up to where a copy from an earlier life may still be one; None if it has to begin anew.

    That of a compacted log always has to. The original may have been compacted without it, and
    then a tombstone is gone there whose record is here. So does one that begins too late: a crash
    may have taken back that records of the original were deleted.
    """
    if original.is_compacted or copy.is_compacted or copy.start > original.start:
        return None
    end = min(_agreed_end(original, copy), original.end)
    return end if end >= original.start else None


def _agreed_end(original: LogExtent, copy: LogExtent) -> int:
    """Where the histories part, as the leader epochs tell (KIP-101)."""
    end = copy.end
    for entry in reversed(copy.epochs.entries()):
        if entry.start_offset >= end:
            continue
        known = original.epochs.end_offset_for(entry.epoch, original.end)
        if known.epoch == entry.epoch and known.epoch != NO_EPOCH:
            return min(end, known.end_offset)
        end = entry.start_offset
    return end

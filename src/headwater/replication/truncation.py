"""Truncate a follower's log where it diverges from its leader's (EP-6).

Follows leader epochs as in KIP-101 and KIP-279.
"""

import logging

from headwater.common.ids import NO_EPOCH, TopicPartition
from headwater.storage.log.leader_epoch_checkpoint import EpochEnd, LeaderEpochFileCache
from headwater.storage.log.unified_log import UnifiedLog

_log = logging.getLogger(__name__)


def truncation_offset(epochs: LeaderEpochFileCache, end_offset: int, leader: EpochEnd) -> int:
    """Return the offset to truncate to, given where an epoch ends in the leader's log.

    If the follower does not know that epoch, it truncates to the end of the next lower one, and
    the next fetch asks again.
    """
    own = epochs.end_offset_for(leader.epoch, end_offset)
    if own.epoch == leader.epoch or own.epoch == NO_EPOCH:
        limit = end_offset if own.epoch == NO_EPOCH else own.end_offset
        return min(leader.end_offset, limit, end_offset)
    return min(own.end_offset, end_offset)


def truncate(log: UnifiedLog, name: TopicPartition, offset: int, now_ms: int) -> None:
    """Truncate the log; warn if that removes records below the high watermark."""
    if offset < log.high_watermark:
        _log.warning(
            "Truncating committed records: partition=%s from=%d high_watermark=%d",
            name,
            offset,
            log.high_watermark,
        )
    log.truncate_to(offset, now_ms=now_ms)

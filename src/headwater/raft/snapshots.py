"""Snapshots of the metadata log: file names and enclosing control records.

00000000000000000123-0000000004.checkpoint    end offset 123, epoch 4

control batch   SnapshotHeader, then KRaftVersion and KRaftVoters from kraft.version 1 on
batches         records of the state machine, at offsets that count from 0
control batch   SnapshotFooter
"""

import re
from collections.abc import Sequence
from typing import Final

from headwater.raft.control_records import (
    ControlMessage,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    control_batch,
)
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_set import VoterSet
from headwater.records.batch_header import read_header
from headwater.records.batch_stamping import assign_offset

SUFFIX: Final = ".checkpoint"
PARTIAL_SUFFIX: Final = ".checkpoint.part"
_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def snapshot_file_name(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{SUFFIX}"


def parse_snapshot_file_name(name: str) -> OffsetAndEpoch | None:
    """The id in a file name; None for other files, half-written snapshots among them."""
    match = _NAME.fullmatch(name)
    return None if match is None else OffsetAndEpoch(int(match[1]), int(match[2]))


def build_snapshot(
    snapshot_id: OffsetAndEpoch,
    *,
    batches: Sequence[bytes],
    last_contained_log_timestamp: int,
    kraft_version: int,
    voters: VoterSet | None,
) -> bytes:
    """The content of a snapshot file."""
    header: list[ControlMessage] = [
        SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_log_timestamp)
    ]
    if kraft_version > 0:
        assert voters is not None, "kraft.version 1 has voters in the log"
        header += [KRaftVersionRecord(k_raft_version=kraft_version), voters.to_record()]
    content = bytearray(
        control_batch(
            header,
            base_offset=0,
            leader_epoch=snapshot_id.epoch,
            timestamp=last_contained_log_timestamp,
        )
    )
    next_offset = len(header)
    for batch in batches:
        stamped = bytearray(batch)
        assign_offset(stamped, 0, next_offset, snapshot_id.epoch)
        next_offset = read_header(stamped).next_offset
        content += stamped
    content += control_batch(
        [SnapshotFooterRecord()],
        base_offset=next_offset,
        leader_epoch=snapshot_id.epoch,
        timestamp=last_contained_log_timestamp,
    )
    return bytes(content)

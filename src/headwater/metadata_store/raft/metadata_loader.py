"""Build the cluster image from committed records (Kafka: MetadataLoader).

The image is always that of a committed offset: records of a batch, and of a transaction, count
together. `snapshot` writes it as a snapshot, from which a later start or another replica goes on.

Note: a record that this version cannot read raises ProtocolError. The replica must stop then: an
image without it would be wrong from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headwater.metadata.changes import MetadataChange, apply
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.metadata.metadata_record_serde import (
    ApiMessageAndVersion,
    decode_record,
    encode_record,
)
from headwater.metadata.metadata_records import MetadataRecord
from headwater.metadata.record_replay import AclIds, RecordReplay
from headwater.metadata.record_writer import RecordWriter
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.quorum_config import FETCH_MAX_BYTES
from headwater.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch, ReplicatedLog
from headwater.raft.snapshots import build_snapshot
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import BatchHeader, Buffer, read_header
from headwater.records.record import Record
from headwater.records.record_reader import read_records

RECORDS_PER_BATCH = 1_000

Committed = Callable[[ClusterImage, Sequence[MetadataChange], int], None]
"""Gets the image after a committed batch, what the batch changed, and its last offset."""


def _ignore(_: ClusterImage, __: Sequence[MetadataChange], ___: int) -> None:
    """Default of `MetadataLoader.on_commit`."""


class MetadataLoader:
    """The state machine on one replica's log."""

    def __init__(
        self,
        cluster_id: str,
        client: KafkaRaftClient,
        log: ReplicatedLog,
        *,
        on_commit: Committed = _ignore,
    ) -> None:
        """Call `on_commit` after each batch, with the image of just that batch."""
        self._on_commit = on_commit
        self._empty = ClusterImage(cluster_id=cluster_id)
        self._client = client
        self._log = log
        self.image = self._empty
        self.acl_ids = AclIds()
        self.writer = RecordWriter(self.acl_ids)
        self._replay = RecordReplay(self.acl_ids)
        # Up to where records are applied, and the epoch of the last one.
        self.end = OffsetAndEpoch(0, 0)
        self.bytes_since_snapshot = 0
        # Of the last applied batch, in ms; -1 before the first.
        self.last_timestamp = -1
        self.loaded_snapshots = 0

    @property
    def has_records(self) -> bool:
        """Whether any record has been applied; those of an open transaction are not."""
        return self._replay.has_applied

    @property
    def is_in_transaction(self) -> bool:
        """Whether the applied part of the log ends within a metadata transaction."""
        return self._replay.is_in_transaction

    def load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Replace the image with that of a snapshot."""
        self.acl_ids.bindings.clear()
        self.acl_ids.ids.clear()
        self._replay = RecordReplay(self.acl_ids)
        content = bytearray()
        while True:
            part = self._log.read_snapshot(snapshot_id, len(content), FETCH_MAX_BYTES)
            assert part is not None, f"snapshot {snapshot_id} is gone"
            content += part.data
            if len(content) >= part.size:
                break
        records = [each for batch, _ in _data_batches(content) for each in batch]
        changes = self._replay.replay(records, self._empty)
        self.image = apply(self._empty, changes, Version(snapshot_id.epoch, snapshot_id.offset))
        self.end = snapshot_id
        self.bytes_since_snapshot = 0
        self.loaded_snapshots += 1

    def commit(self, start_offset: int, end_offset: int) -> list[MetadataChange]:
        """Apply committed records; return what they change."""
        found: list[MetadataChange] = []
        offset = start_offset
        while offset < end_offset:
            batches = self._log.read(offset, end_offset, FETCH_MAX_BYTES)
            assert len(batches), f"committed records at {offset} are not in the log"
            for records, header in _data_batches(batches):
                self.last_timestamp = header.max_timestamp
                changes = self._replay.replay(records, self.image)
                if changes:
                    self.image = apply(self.image, changes, self.image.version)
                    self._on_commit(self.image, changes, header.next_offset - 1)
                    found += changes
            self.bytes_since_snapshot += len(batches)
            offset, epoch = _end_of(batches)
            self.end = OffsetAndEpoch(offset, epoch)
        return found

    @property
    def can_snapshot(self) -> bool:
        """Whether the image differs from the latest snapshot, and no transaction is open."""
        latest = self._log.latest_snapshot_id or BOOTSTRAP_SNAPSHOT_ID
        return self.end.offset > latest.offset and not self.is_in_transaction

    def snapshot(self) -> OffsetAndEpoch | None:
        """Write the image as a snapshot; None if there is one of this offset already."""
        writer = self._log.create_new_snapshot(self.end)
        if writer is None:
            return None
        records = self.writer.image_records(self.image)
        last_offset = self.end.offset - 1
        content = build_snapshot(
            self.end,
            batches=list(batches_of(records, timestamp=max(0, self.last_timestamp))),
            last_contained_log_timestamp=self.last_timestamp,
            kraft_version=self._client.kraft_version_at(last_offset),
            voters=self._client.voters_at(last_offset),
        )
        writer.append(content)
        writer.freeze()
        self.bytes_since_snapshot = 0
        return self.end


def batches_of(records: Sequence[ApiMessageAndVersion], *, timestamp: int) -> Iterator[bytes]:
    """Batches of a limited number of records each."""
    for start in range(0, len(records), RECORDS_PER_BATCH):
        some = records[start : start + RECORDS_PER_BATCH]
        yield build_batch([Record(value=encode_record(each), timestamp=timestamp) for each in some])


def records_in(content: Buffer) -> list[MetadataRecord]:
    """The metadata records among whole batches, for example of `bootstrap.checkpoint`."""
    return [each for batch, _ in _data_batches(content) for each in batch]


def _data_batches(content: Buffer) -> Iterator[tuple[list[MetadataRecord], BatchHeader]]:
    position = 0
    while position < len(content):
        header = read_header(content, position)
        if not header.is_control:
            values = [each.value for each in read_records(content, header, position)]
            yield [decode_record(each or b"").message for each in values], header
        position += header.size_bytes


def _end_of(batches: Buffer) -> tuple[int, int]:
    position = 0
    end = (0, 0)
    while position < len(batches):
        header = read_header(batches, position)
        end = (header.next_offset, header.leader_epoch)
        position += header.size_bytes
    return end

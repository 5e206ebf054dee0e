"""Write the decisions of the active controller to the metadata log.

The leader of the quorum is the active controller. It becomes active once it has applied everything
before its epoch. It aborts a transaction that its predecessor did not end, and its first write in
an empty log are the records of `bootstrap.checkpoint`.

Implements `headwater.metadata.ports.metadata_store.ChangeWriter`: writes complete in order, when
they are committed; when this replica stops leading, all that are under way fail. They may still be
committed by the next leader, as that port allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ControllerFenced
from headwater.metadata.changes import MetadataChange, apply
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.metadata.metadata_record_serde import (
    ApiMessageAndVersion,
    decode_record,
    encode_record,
    newest,
)
from headwater.metadata.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from headwater.metadata.ports.metadata_store import Failed
from headwater.metadata.record_replay import AclIds, RecordReplay
from headwater.metadata_store.raft.metadata_loader import (
    RECORDS_PER_BATCH,
    MetadataLoader,
    batches_of,
)
from headwater.metadata_store.raft.raft_driver import RaftDriver
from headwater.raft.election_state import LeaderAndEpoch

BOOTSTRAP_TRANSACTION = "Bootstrap records"


@dataclass(slots=True, kw_only=True)
class _Write:
    version: Version
    then: Callable[[Version], None]
    on_error: Failed
    # Known once the driver has appended it.
    last_offset: int | None = None


class QuorumChangeWriter:
    """The active controller's access to the log, while this replica leads."""

    def __init__(
        self,
        node_id: int,
        driver: RaftDriver,
        loader: MetadataLoader,
        *,
        bootstrap: Sequence[MetadataRecord],
        now_ms: Callable[[], int],
    ) -> None:
        self._node_id = node_id
        self._driver = driver
        self._loader = loader
        self._bootstrap = tuple(bootstrap)
        self._now_ms = now_ms
        self._epoch: int | None = None
        self._proposed: ClusterImage | None = None
        self._writes: deque[_Write] = deque()
        # The end of what is appended, and the number of records that the driver has not appended.
        self._end_offset = 0
        self._queued_count = 0

    @property
    def image(self) -> ClusterImage | None:
        """The image with all writes under way; None while this replica is not active."""
        return self._proposed

    @property
    def next_write_offset(self) -> int:
        """At most the offset of the next record, and above all offsets before it.

        Note: control records of the quorum may take the offset itself.
        """
        return self._end_offset + self._queued_count

    @property
    def version(self) -> Version | None:
        """What the next write must be decided on; None while this replica is not active."""
        return None if self._proposed is None else self._proposed.version

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        """Become active, or fail what is under way."""
        self._fail(ControllerFenced(f"node {leader.leader_id} leads epoch {leader.epoch}"))
        self._epoch = self._proposed = None
        if leader.leader_id != self._node_id:
            return
        self._epoch = leader.epoch
        self._end_offset = self._loader.end.offset
        self._queued_count = 0
        image = self._loader.image
        if self._loader.is_in_transaction:
            # The predecessor has died before its last batch: no one will end the transaction, and
            # without its end all later records would count as parts of it (KIP-868).
            self._append([newest(AbortTransactionRecord())], None)
        if not self._loader.has_records and self._bootstrap:
            image = self._write_bootstrap(image)
        self._proposed = apply(image, (), Version(leader.epoch, 0))

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        proposed = self._proposed
        if proposed is None or fence != proposed.version:
            newest_version = None if proposed is None else proposed.version
            on_error(
                ControllerFenced(f"decided on version {fence}, but the newest is {newest_version}")
            )
            return
        version = fence._replace(sequence=fence.sequence + 1)
        records = self._loader.writer.records_of(changes, proposed)
        self._proposed = apply(proposed, changes, version)
        write = _Write(version=version, then=then, on_error=on_error)
        self._writes.append(write)
        if records:
            self._append(records, write)
        else:
            # Nothing to store: done when everything before it is.
            write.last_offset = -1
            self.committed(self._loader.end.offset)

    def committed(self, end_offset: int) -> None:
        """Complete the writes that are applied up to an offset."""
        while self._writes:
            last_offset = self._writes[0].last_offset
            if last_offset is None or last_offset >= end_offset:
                return
            write = self._writes.popleft()
            write.then(write.version)

    def _append(
        self,
        records: Sequence[ApiMessageAndVersion],
        write: _Write | None,
        *,
        is_transaction: bool = False,
    ) -> None:
        """Append records; `is_transaction` says that they begin and end one."""
        if len(records) > RECORDS_PER_BATCH and not is_transaction:
            # A batch is atomic; several of them need a transaction (KIP-868).
            begin, end = newest(BeginTransactionRecord()), newest(EndTransactionRecord())
            records = [begin, *records, end]
        batches = bytearray(b"".join(batches_of(records, timestamp=self._now_ms())))

        epoch = self._epoch
        assert epoch is not None
        self._queued_count += len(records)

        def appended(error: ErrorCode, last_offset: int) -> None:
            if self._epoch != epoch:
                return
            self._queued_count -= len(records)
            if error is not ErrorCode.NONE:
                self._fail(ControllerFenced("this node does not lead the quorum any more"))
                return
            self._end_offset = last_offset + 1
            if write is not None:
                write.last_offset = last_offset

        self._driver.append(epoch, batches, len(records), appended)

    def _write_bootstrap(self, image: ClusterImage) -> ClusterImage:
        self._append(self._bootstrap_records(), None, is_transaction=True)
        # What the log will have: later changes are decided on it.
        return self.bootstrap_image(image)

    def bootstrap_image(self, image: ClusterImage) -> ClusterImage:
        """Return an empty image with the records of `bootstrap.checkpoint`."""
        replay = RecordReplay(AclIds())
        records = self._bootstrap_records()
        messages = [decode_record(encode_record(each)).message for each in records]
        return apply(image, replay.replay(messages, image), image.version)

    def _bootstrap_records(self) -> list[ApiMessageAndVersion]:
        begin = BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION)
        return [newest(each) for each in (begin, *self._bootstrap, EndTransactionRecord())]

    def _fail(self, error: ControllerFenced) -> None:
        self._proposed = None
        writes, self._writes = self._writes, deque()
        for write in writes:
            write.on_error(error)

"""Update the producer state: live with each append, and by replay from a snapshot.

Both use the same function, so that a state rebuilt after a crash equals the lost one. Only headers
are read, except for transaction markers, whose record says commit or abort.
"""

from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.control_batches import read_control
from headwater.storage.index.transaction_index import AbortedTransaction
from headwater.storage.log.local_log import LocalLog
from headwater.storage.log.segment import LogSegment
from headwater.storage.producer_state import producer_snapshot
from headwater.storage.producer_state.producer_state_manager import ProducerStateManager


def record(
    producers: ProducerStateManager,
    header: BatchHeader,
    batch: Buffer,
    *,
    base_offset: int,
    timestamp: int,
) -> AbortedTransaction | None:
    """Record a producer's batch; return the index entry of an ABORT marker."""
    if not header.is_control:
        producers.record(header, first_offset=base_offset, timestamp=timestamp)
        return None
    control = read_control(batch, header)
    if control is None or control.coordinator_epoch is None:
        return None
    completed = producers.record_marker(
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        coordinator_epoch=control.coordinator_epoch,
        is_abort=control.is_abort,
        offset=base_offset,
        timestamp=timestamp,
    )
    if completed is None or not completed.is_aborted:
        return None
    return AbortedTransaction(
        producer_id=completed.producer_id,
        first_offset=completed.first_offset,
        last_offset=completed.last_offset,
        last_stable_offset=producers.last_stable_offset_when(completed),
    )


def reload(
    producers: ProducerStateManager,
    log: LocalLog,
    *,
    log_start_offset: int,
    trusted_up_to: int,
    index_from: int | None = None,
) -> None:
    """Load the newest snapshot up to an offset and replay the log after it.

    Aborted transactions of segments from `index_from` on are indexed again, as after a crash.
    """
    disk, folder = log.home.disk, log.home.folder
    snapshot = producer_snapshot.load_newest(
        disk, folder, log_start_offset=log_start_offset, log_end_offset=trusted_up_to
    )
    producers.load(snapshot.entries if snapshot else ())
    start_offset = snapshot.offset if snapshot else log.segments.first.base_offset
    for segment in log.segments.since(start_offset):
        reindex = index_from is not None and segment.base_offset >= index_from
        _replay(producers, segment, start_offset, reindex=reindex)


def _replay(
    producers: ProducerStateManager, segment: LogSegment, start_offset: int, *, reindex: bool
) -> None:
    if reindex:
        segment.forget_transactions()
    for placed in segment.producer_batches_since(start_offset):
        header = placed.header
        batch = b""
        if header.is_control:
            batch = segment.log.file().read(header.size_bytes, placed.position)
        aborted = record(
            producers,
            header,
            batch,
            base_offset=header.base_offset,
            timestamp=header.max_timestamp,
        )
        if aborted and reindex:
            segment.transactions.append(aborted)

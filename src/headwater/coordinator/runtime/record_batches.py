"""Build batches of coordinator records and markers."""

from collections.abc import Sequence

from headwater.common.ids import NO_EPOCH, NO_PRODUCER
from headwater.coordinator.records.record_serde import RecordSerde
from headwater.coordinator.runtime.coordinator_effects import StateRecord, TransactionalProducer
from headwater.records.batch_building import build_batch
from headwater.records.control_batches import ControlType, build_marker
from headwater.records.record import Record


def batch_of(
    records: Sequence[StateRecord],
    codec: RecordSerde,
    producer: TransactionalProducer | None,
    *,
    now_ms: int,
) -> bytearray:
    """Build one batch; in a transaction it has an epoch but no sequence (IDP-9)."""
    encoded = [codec.encode(record) for record in records]
    batch = build_batch(
        [Record(key=key, value=value, timestamp=now_ms) for key, value in encoded],
        producer_id=NO_PRODUCER if producer is None else producer.producer_id,
        producer_epoch=NO_EPOCH if producer is None else producer.epoch,
        is_transactional=producer is not None,
    )
    return bytearray(batch)


def marker_of(
    producer: TransactionalProducer, coordinator_epoch: int, *, is_commit: bool, now_ms: int
) -> bytearray:
    """Build a transaction marker (TX-6)."""
    marker = build_marker(
        ControlType.COMMIT if is_commit else ControlType.ABORT,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=now_ms,
    )
    return bytearray(marker)

"""ProducerStateManager, rule by rule."""

import pytest

from headwater.common.exceptions import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from headwater.records.batch_header import MAX_SEQUENCE, TRANSACTIONAL_FLAG, BatchHeader
from headwater.storage.producer_state.producer_state_manager import (
    AppendOrigin,
    BatchEntry,
    CompletedTransaction,
    ProducerEntry,
    ProducerStateManager,
)

CLIENT = AppendOrigin.CLIENT
COORDINATOR = AppendOrigin.COORDINATOR
REPLICATION = AppendOrigin.REPLICATION

PRODUCER = 7


def batch(
    sequence: int,
    *,
    records: int = 1,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    transactional: bool = False,
) -> BatchHeader:
    """A client's header: offsets start at 0, and only producer fields are set."""
    return BatchHeader(
        base_offset=0,
        length=100,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL_FLAG if transactional else 0,
        last_offset_delta=records - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=records,
    )


def write(
    states: ProducerStateManager, header: BatchHeader, offset: int, timestamp: int = 1000
) -> None:
    states.check(header, CLIENT)
    states.record(header, first_offset=offset, timestamp=timestamp)


def end_transaction(
    states: ProducerStateManager,
    offset: int,
    *,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    is_abort: bool = True,
    coordinator_epoch: int = 1,
) -> CompletedTransaction | None:
    states.check_marker(producer_id=producer_id, epoch=epoch, coordinator_epoch=coordinator_epoch)
    return states.record_marker(
        producer_id=producer_id,
        epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        is_abort=is_abort,
        offset=offset,
        timestamp=2000,
    )


def stable(states: ProducerStateManager, high_watermark: int, log_start_offset: int = 0) -> int:
    return states.last_stable_offset(
        high_watermark=high_watermark, log_start_offset=log_start_offset
    )


def test_duplicate_is_answered_with_its_first_offset_and_timestamp() -> None:
    """IDP-2"""
    states = ProducerStateManager()
    write(states, batch(0, records=3), offset=10, timestamp=5)
    assert states.find_duplicate(batch(0, records=3)) == BatchEntry(0, 2, 10, 12, 5)


def test_only_the_last_five_batches_are_recognised_as_duplicates() -> None:
    """IDP-1, IDP-2, IDP-4: an older one is out of sequence."""
    states = ProducerStateManager()
    for sequence in range(6):
        write(states, batch(sequence), offset=10 + sequence)
    found = [states.find_duplicate(batch(sequence)) is not None for sequence in range(7)]
    assert found == [False, True, True, True, True, True, False]
    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(batch(0), CLIENT)


def test_batch_with_partly_equal_sequences_is_not_a_duplicate() -> None:
    """IDP-2"""
    states = ProducerStateManager()
    write(states, batch(0, records=3), offset=0)
    assert states.find_duplicate(batch(0, records=2)) is None
    assert states.find_duplicate(batch(1, records=2)) is None
    assert states.find_duplicate(batch(0, records=3, epoch=1)) is None
    assert states.find_duplicate(batch(0, records=3, producer_id=8)) is None


def test_older_epoch_is_rejected_whatever_its_origin() -> None:
    """IDP-3, IDP-9"""
    states = ProducerStateManager()
    write(states, batch(0, epoch=2), offset=0)
    for origin in (CLIENT, COORDINATOR):
        with pytest.raises(InvalidProducerEpoch, match=r"producer 7 .*epoch 1.*epoch 2"):
            states.check(batch(1, epoch=1), origin)


@pytest.mark.parametrize("sequence", [0, 2, 4, 100])
def test_out_of_sequence_batch_is_rejected(sequence: int) -> None:
    """IDP-4"""
    states = ProducerStateManager()
    write(states, batch(0, records=3), offset=0)
    with pytest.raises(
        OutOfOrderSequenceNumber, match=rf"producer 7 .*sequence {sequence}, expected 3"
    ):
        states.check(batch(sequence), CLIENT)


def test_sequence_zero_follows_the_largest() -> None:
    """IDP-4"""
    states = ProducerStateManager()
    write(states, batch(MAX_SEQUENCE), offset=0)
    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(batch(1), CLIENT)
    write(states, batch(0), offset=1)


def test_sequences_wrap_within_a_batch() -> None:
    """IDP-7"""
    states = ProducerStateManager()
    write(states, batch(MAX_SEQUENCE - 1, records=4), offset=0)
    assert states.find_duplicate(batch(MAX_SEQUENCE - 1, records=4)) is not None
    assert states.entries()[0].last_sequence == 1
    write(states, batch(2), offset=4)


def test_new_epoch_starts_at_sequence_zero() -> None:
    """IDP-5"""
    states = ProducerStateManager()
    write(states, batch(0, records=3), offset=0)
    with pytest.raises(OutOfOrderSequenceNumber, match="sequence 3, expected 0"):
        states.check(batch(3, epoch=1), CLIENT)
    write(states, batch(0, epoch=1), offset=3)
    assert states.find_duplicate(batch(0, records=3)) is None


def test_unknown_producer_may_start_at_any_sequence() -> None:
    """IDP-6"""
    states = ProducerStateManager()
    write(states, batch(41), offset=0)
    write(states, batch(42), offset=1)


def test_a_negative_sequence_with_a_producer_is_an_invalid_record() -> None:
    """IDP-7"""
    with pytest.raises(InvalidRecord, match="producer 7"):
        ProducerStateManager().check(batch(-1), CLIENT)


def test_batch_without_producer_is_neither_checked_nor_recorded() -> None:
    states = ProducerStateManager()
    write(states, batch(-1, producer_id=-1), offset=0)
    assert states.find_duplicate(batch(-1, producer_id=-1)) is None
    assert len(states) == 0


def test_coordinator_writes_without_sequences() -> None:
    """IDP-9"""
    states = ProducerStateManager()
    for offset in range(3):
        header = batch(-1, records=2, transactional=True)
        states.check(header, COORDINATOR)
        states.record(header, first_offset=2 * offset, timestamp=0)
    assert states.find_duplicate(batch(-1, records=2, transactional=True)) is None
    assert states.entries()[0].last_sequence == -1


def test_replication_accepts_what_the_leader_accepted() -> None:
    """IDP-9, EP-9"""
    states = ProducerStateManager()
    write(states, batch(0, epoch=3, transactional=True), offset=0)
    states.check(batch(50, epoch=1), REPLICATION)
    states.check(batch(-1), REPLICATION)


def test_non_transactional_batch_during_a_transaction_is_rejected() -> None:
    """TX-8"""
    states = ProducerStateManager()
    write(states, batch(0, transactional=True), offset=40)
    for origin in (CLIENT, COORDINATOR):
        with pytest.raises(InvalidTxnState, match=r"producer 7 .*offset 40"):
            states.check(batch(1), origin)
    end_transaction(states, offset=41)
    write(states, batch(1), offset=42)


def test_out_of_sequence_has_precedence_over_the_transaction_state() -> None:
    """TX-8: Kafka checks the sequence first."""
    states = ProducerStateManager()
    write(states, batch(0, transactional=True), offset=40)
    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(batch(9), CLIENT)


def test_a_marker_ends_the_open_transaction() -> None:
    """TX-6"""
    states = ProducerStateManager()
    write(states, batch(0, records=5, transactional=True), offset=100)
    write(states, batch(5, transactional=True), offset=110)
    assert end_transaction(states, offset=120, is_abort=False) == CompletedTransaction(
        producer_id=PRODUCER, first_offset=100, last_offset=120, is_aborted=False
    )
    assert states.entries()[0].transaction_first_offset == -1


def test_a_transaction_is_open_in_its_epoch_from_its_first_batch_to_its_marker() -> None:
    """TX-13."""
    states = ProducerStateManager()
    assert not states.has_producer(PRODUCER)
    write(states, batch(sequence=0, transactional=True), 10)
    assert states.has_producer(PRODUCER)
    assert states.has_open_transaction(PRODUCER, epoch=0)
    assert not states.has_open_transaction(PRODUCER, epoch=1)
    end_transaction(states, offset=11)
    assert not states.has_open_transaction(PRODUCER, epoch=0)


def test_marker_without_open_transaction_ends_nothing() -> None:
    """TX-7: it is recorded all the same."""
    states = ProducerStateManager()
    assert end_transaction(states, offset=5, epoch=3, coordinator_epoch=9) is None
    assert stable(states, high_watermark=5) == 5
    assert states.entries() == [
        ProducerEntry(producer_id=PRODUCER, epoch=3, timestamp=2000, coordinator_epoch=9)
    ]


def test_producer_known_only_by_a_marker_starts_at_sequence_zero() -> None:
    """IDP-5, TX-14"""
    states = ProducerStateManager()
    end_transaction(states, offset=5, epoch=3)
    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(batch(1, epoch=3), CLIENT)
    states.check(batch(0, epoch=3), CLIENT)


def test_marker_of_the_same_epoch_keeps_the_sequence() -> None:
    """TX-6"""
    states = ProducerStateManager()
    write(states, batch(0, transactional=True), offset=0)
    end_transaction(states, offset=1)
    assert states.find_duplicate(batch(0, transactional=True)) is not None
    write(states, batch(1, transactional=True), offset=2)


def test_marker_of_a_new_epoch_fences_the_old_one_and_resets_the_sequence() -> None:
    """TX-6, TX-14"""
    states = ProducerStateManager()
    write(states, batch(0, transactional=True), offset=0)
    assert end_transaction(states, offset=1, epoch=1) is not None
    assert states.find_duplicate(batch(0, transactional=True)) is None
    with pytest.raises(InvalidProducerEpoch):
        states.check(batch(1, transactional=True), CLIENT)
    write(states, batch(0, epoch=1, transactional=True), offset=2)


def test_marker_of_an_old_producer_epoch_is_rejected() -> None:
    """TX-6"""
    states = ProducerStateManager()
    write(states, batch(0, epoch=2, transactional=True), offset=0)
    with pytest.raises(InvalidProducerEpoch):
        states.check_marker(producer_id=PRODUCER, epoch=1, coordinator_epoch=9)


def test_marker_of_a_fenced_coordinator_is_rejected() -> None:
    """TX-6"""
    states = ProducerStateManager()
    end_transaction(states, offset=0, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced, match=r"producer 7 .*epoch 4.*epoch 5"):
        states.check_marker(producer_id=PRODUCER, epoch=0, coordinator_epoch=4)
    states.check_marker(producer_id=PRODUCER, epoch=0, coordinator_epoch=5)


def test_new_epoch_continues_an_open_transaction() -> None:
    """As in Kafka: only a marker ends a transaction in a partition."""
    states = ProducerStateManager()
    write(states, batch(0, transactional=True), offset=10)
    write(states, batch(0, epoch=1, transactional=True), offset=11)
    assert end_transaction(states, offset=12, epoch=1) == CompletedTransaction(
        producer_id=PRODUCER, first_offset=10, last_offset=12, is_aborted=True
    )


def test_without_transactions_everything_below_the_high_watermark_is_stable() -> None:
    """LSO-1"""
    states = ProducerStateManager()
    write(states, batch(0), offset=0)
    assert states.first_unstable_offset(high_watermark=1) is None
    assert stable(states, high_watermark=1) == 1


def test_earliest_open_transaction_holds_back_the_last_stable_offset() -> None:
    """LSO-1"""
    states = ProducerStateManager()
    write(states, batch(0, producer_id=1, transactional=True), offset=10)
    write(states, batch(0, producer_id=2, transactional=True), offset=20)
    assert stable(states, high_watermark=30) == 10
    assert stable(states, high_watermark=5) == 5


def test_a_finished_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    """LSO-1"""
    states = ProducerStateManager()
    write(states, batch(0, transactional=True), offset=10)
    end_transaction(states, offset=20)
    assert stable(states, high_watermark=20) == 10
    assert stable(states, high_watermark=21) == 21
    states.high_watermark_moved(20)
    assert stable(states, high_watermark=20) == 10
    states.high_watermark_moved(21)
    assert states.first_unstable_offset(high_watermark=0) is None


def test_a_long_transaction_outlives_the_short_ones_within_it() -> None:
    """LSO-1"""
    states = ProducerStateManager()
    write(states, batch(0, producer_id=1, transactional=True), offset=10)
    write(states, batch(0, producer_id=2, transactional=True), offset=11)
    end_transaction(states, offset=12, producer_id=2)
    assert stable(states, high_watermark=13) == 10
    end_transaction(states, offset=13, producer_id=1)
    assert stable(states, high_watermark=13) == 10
    assert stable(states, high_watermark=14) == 14


def test_last_stable_offset_is_not_below_the_log_start() -> None:
    """LSO-1, LSO-3: DeleteRecords may delete the first records of an open transaction."""
    states = ProducerStateManager()
    write(states, batch(0, transactional=True), offset=10)
    assert stable(states, high_watermark=30, log_start_offset=15) == 15


def test_transaction_index_gets_the_first_undecided_offset() -> None:
    """LSO-2"""
    states = ProducerStateManager()
    write(states, batch(0, producer_id=1, transactional=True), offset=10)
    write(states, batch(0, producer_id=2, transactional=True), offset=11)
    second = end_transaction(states, offset=12, producer_id=2)
    assert second is not None
    assert states.last_stable_offset_when(second) == 10
    first = end_transaction(states, offset=13, producer_id=1)
    assert first is not None
    assert states.last_stable_offset_when(first) == 14


def test_idle_producers_expire_unless_a_transaction_is_open() -> None:
    """IDP-8"""
    states = ProducerStateManager()
    write(states, batch(0, producer_id=1), offset=0, timestamp=100)
    write(states, batch(0, producer_id=2), offset=1, timestamp=101)
    write(states, batch(0, producer_id=3, transactional=True), offset=2, timestamp=100)
    assert states.expire(now_ms=200, expiration_ms=100) == 1
    assert [entry.producer_id for entry in states.entries()] == [2, 3]


def test_marker_counts_as_activity_for_expiration() -> None:
    """IDP-8"""
    states = ProducerStateManager()
    write(states, batch(0, transactional=True), offset=0, timestamp=100)
    end_transaction(states, offset=1)
    assert states.entries()[0].timestamp == 2000


def test_an_entry_shows_the_last_batch_and_the_open_transaction() -> None:
    """IDP-1"""
    states = ProducerStateManager()
    write(states, batch(0, records=2, transactional=True), offset=10)
    write(states, batch(2, records=3, transactional=True), offset=12, timestamp=77)
    assert states.entries() == [
        ProducerEntry(
            producer_id=PRODUCER,
            epoch=0,
            last_sequence=4,
            last_offset=14,
            last_offset_delta=2,
            timestamp=77,
            transaction_first_offset=10,
        )
    ]


def test_loaded_state_has_only_the_last_batch_of_each_producer() -> None:
    """RC-4: a snapshot holds one batch of each producer."""
    before = ProducerStateManager()
    write(before, batch(MAX_SEQUENCE), offset=9)
    write(before, batch(0, records=3), offset=10, timestamp=5)
    after = ProducerStateManager()
    write(after, batch(0, producer_id=99, transactional=True), offset=0)
    after.load(before.entries())
    assert after.entries() == before.entries()
    assert after.find_duplicate(batch(0, records=3)) == BatchEntry(0, 2, 10, 12, 5)
    assert after.find_duplicate(batch(MAX_SEQUENCE)) is None
    assert stable(after, high_watermark=13) == 13


def test_loaded_batch_keeps_its_wrapped_sequences() -> None:
    """RC-4, IDP-7"""
    before = ProducerStateManager()
    write(before, batch(MAX_SEQUENCE, records=3), offset=10)
    after = ProducerStateManager()
    after.load(before.entries())
    assert after.find_duplicate(batch(MAX_SEQUENCE, records=3)) is not None


def test_open_transactions_are_loaded_in_the_order_of_their_offsets() -> None:
    """RC-4, LSO-1"""
    states = ProducerStateManager()
    states.load(
        [
            ProducerEntry(producer_id=1, epoch=0, transaction_first_offset=20),
            ProducerEntry(producer_id=2, epoch=0, transaction_first_offset=10),
        ]
    )
    assert stable(states, high_watermark=30) == 10
    end_transaction(states, offset=30, producer_id=2)
    states.high_watermark_moved(31)
    assert stable(states, high_watermark=31) == 20


def test_clear_removes_producers_and_transactions() -> None:
    states = ProducerStateManager()
    write(states, batch(0, producer_id=1, transactional=True), offset=0)
    write(states, batch(0, producer_id=2, transactional=True), offset=1)
    end_transaction(states, offset=2, producer_id=1)
    states.clear()
    assert len(states) == 0
    assert stable(states, high_watermark=1) == 1

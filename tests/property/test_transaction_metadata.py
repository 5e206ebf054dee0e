"""Transaction metadata survives its record after any transitions."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headwater.common.ids import NO_PRODUCER, ProducerId, TopicPartition
from headwater.coordinator.records.record_serde import TRANSACTION_RECORDS
from headwater.coordinator.records.transaction_records import TransactionLogRecord
from headwater.coordinator.transaction.transaction_metadata import (
    TransactionMetadata,
    metadata_of,
)
from headwater.coordinator.transaction.transaction_states import TRANSITIONS, TransactionState

STATES = TransactionState
NOW = st.integers(0, 2**40)
PARTITIONS = st.lists(
    st.builds(TopicPartition, st.sampled_from(["a", "b.c"]), st.integers(0, 5)), max_size=6
)


@st.composite
def moved(draw: st.DrawFn) -> TransactionMetadata:
    """Return a transactional id after some legal transitions."""
    state = TransactionMetadata(
        transactional_id=draw(st.text(min_size=1, max_size=20)),
        producer_id=ProducerId(draw(st.integers(0, 2**62))),
        producer_epoch=draw(st.integers(0, 32_700)),
        timeout_ms=draw(st.integers(1, 2**31 - 1)),
        state=STATES.EMPTY,
        last_update_ms=draw(NOW),
    )
    for _ in range(draw(st.integers(0, 12))):
        following = [each for each in TRANSITIONS[state.state] if each is not STATES.DEAD]
        state = _move(draw, state, draw(st.sampled_from(following)))
    return state


def _move(draw: st.DrawFn, state: TransactionMetadata, to: TransactionState) -> TransactionMetadata:
    now_ms = draw(NOW)
    match to:
        case STATES.EMPTY:
            return state.initialised(
                epoch=state.producer_epoch + 1, last_epoch=-1, timeout_ms=5, now_ms=now_ms
            )
        case STATES.ONGOING:
            return state.with_partitions(draw(PARTITIONS), client_version=2, now_ms=now_ms)
        case STATES.PREPARE_COMMIT | STATES.PREPARE_ABORT:
            next_id = ProducerId(draw(st.sampled_from([NO_PRODUCER, 77])))
            return state.ended_with_bump(
                is_commit=to is STATES.PREPARE_COMMIT, now_ms=now_ms, next_producer_id=next_id
            )
        case _:
            return state.completed(now_ms)


@given(moved())
def test_record_has_everything_except_the_last_epoch(state: TransactionMetadata) -> None:
    """TX-1."""
    read = TRANSACTION_RECORDS.decode(*TRANSACTION_RECORDS.encode(state.record()))
    assert isinstance(read, TransactionLogRecord)
    assert read.value is not None
    known = metadata_of(read.key.transactional_id, read.value)
    assert known.record() == state.record()
    assert sorted(known.partitions) == sorted(state.partitions)
    assert replace(known, partitions=()) == replace(state, partitions=(), last_producer_epoch=-1)

"""Taking buffered data of a partition in portions, and read_committed filtering."""

import pytest

from headwater.client.consumer.fetch.completed_fetch import CompletedFetch, Reading
from headwater.common.exceptions import CorruptBatch, DecompressionBomb
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.fetch import AbortedTransaction
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec
from headwater.records.control_batches import ControlType, build_marker
from headwater.records.record import Record

T0 = TopicPartition("t", 0)


def batch(
    base: int,
    count: int = 2,
    *,
    producer: int = -1,
    epoch: int = 0,
    codec: Codec = Codec.NONE,
    last_offset: int | None = None,
) -> bytes:
    return build_batch(
        [Record(value=b"%d" % (base + index), timestamp=1) for index in range(count)],
        base_offset=base,
        leader_epoch=epoch,
        codec=codec,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        is_transactional=producer >= 0,
        last_offset=last_offset,
    )


def test_detached_data_has_the_same_rows() -> None:
    answer = bytearray(batch(0) + batch(2))
    data = CompletedFetch(T0, 1, memoryview(answer), fetch_offset=0, aborted=(), reading=Reading())
    data.detach()
    # The response's memory may be reused now.
    answer[:] = bytes(len(answer))
    rows = data.take(10)
    assert rows is not None
    assert rows.stop - rows.start == 4


def marker(base: int, producer: int, *, commits: bool) -> bytes:
    return build_marker(
        ControlType.COMMIT if commits else ControlType.ABORT,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1,
        base_offset=base,
    )


def fetched(
    *batches: bytes,
    at: int = 0,
    aborted: tuple[AbortedTransaction, ...] = (),
    committed_only: bool = False,
) -> CompletedFetch:
    return CompletedFetch(
        T0,
        1,
        b"".join(batches),
        fetch_offset=at,
        aborted=aborted,
        reading=Reading(is_committed_only=committed_only),
    )


def offsets(data: CompletedFetch, limit: int = 100) -> list[int]:
    found: list[int] = []
    while (rows := data.take(limit)) is not None:
        numbers = memoryview(rows.columns.offsets).cast("B").cast("q")
        found += numbers[rows.start : rows.stop]
    return found


@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_taken_up_to_a_limit(codec: Codec) -> None:
    data = fetched(batch(0, 3, codec=codec), batch(3, 4, codec=codec))
    places = []
    while (rows := data.take(2)) is not None:
        places.append((rows.stop - rows.start, data.next_offset))
    assert places == [(2, 2), (2, 4), (2, 6), (1, 7)]
    assert data.is_empty


def test_records_before_the_fetch_offset_are_skipped() -> None:
    """FT-3: a broker sends the whole batch that contains the offset."""
    assert offsets(fetched(batch(0, 5), batch(5, 2), at=3)) == [3, 4, 5, 6]


def test_a_partial_batch_is_left_for_the_next_fetch() -> None:
    data = fetched(batch(0, 2), batch(2, 2)[:-1])
    assert data.end_offset == 2
    assert offsets(data) == [0, 1]


def test_the_position_skips_offsets_removed_by_compaction() -> None:
    data = fetched(batch(0, 2, last_offset=9))
    assert offsets(data) == [0, 1]
    assert data.next_offset == 10


def test_rows_of_different_leader_epochs_are_separate() -> None:
    data = fetched(batch(0, 2, epoch=3), batch(2, 2, epoch=4))
    epochs = []
    while (rows := data.take(100)) is not None:
        epochs.append((rows.leader_epoch, rows.stop - rows.start))
    assert epochs == [(3, 2), (4, 2)]
    assert data.end_epoch == data.next_epoch == 4


def test_a_corrupt_batch_fails_each_take_after_the_batches_before_it() -> None:
    broken = bytearray(batch(4, 2))
    broken[-1] ^= 1
    data = fetched(batch(0, 2), batch(2, 2), bytes(broken), batch(6, 2))
    for offset in (2, 4):
        rows = data.take(100)
        assert rows is not None
        assert data.next_offset == offset
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            data.take(100)
    assert data.next_offset == 4


def test_batches_too_large_to_decode_together_are_decoded_one_by_one() -> None:
    """A column holds at most 2 GiB, and a megabyte may decompress to more."""
    limit = Reading(unpacked_max_bytes=100)
    small, large = batch(0, 2, codec=Codec.ZSTD), batch(2, 50, codec=Codec.ZSTD)
    data = CompletedFetch(T0, 1, small + large, fetch_offset=0, aborted=(), reading=limit)
    assert data.take(100) is not None
    assert data.next_offset == 2
    with pytest.raises(DecompressionBomb):
        data.take(100)


def test_unused_rows_can_be_put_back() -> None:
    data = fetched(batch(0, 5))
    rows = data.take(4)
    assert rows is not None
    data.put_back(rows, 1)
    assert data.next_offset == 1
    assert offsets(data) == [1, 2, 3, 4]
    assert data.next_offset == 5


def test_all_rows_can_be_put_back_after_the_last_one() -> None:
    data = fetched(batch(0, 2))
    rows = data.take(4)
    assert rows is not None
    data.put_back(rows, 0)
    assert not data.is_empty
    assert offsets(data) == [0, 1]
    assert data.next_offset == 2


MIXED = (
    batch(0, 2, producer=1),
    batch(2, 1, producer=2),
    batch(3, 1),
    marker(4, 1, commits=False),
    batch(5, 1, producer=1),
    marker(6, 2, commits=True),
    marker(7, 1, commits=True),
)
ABORTED = (AbortedTransaction(producer_id=1, first_offset=0),)


def test_read_committed_skips_aborted_records_and_control_batches() -> None:
    """TX-16: producer 1 aborts 0 and 1, and commits 5."""
    data = fetched(*MIXED, aborted=ABORTED, committed_only=True)
    assert offsets(data) == [2, 3, 5]
    assert data.next_offset == 8


def test_read_uncommitted_skips_control_batches_only() -> None:
    assert offsets(fetched(*MIXED, aborted=ABORTED)) == [0, 1, 2, 3, 5]


def test_an_aborted_transaction_that_started_before_the_response_is_skipped() -> None:
    data = fetched(
        batch(10, 2, producer=1),
        marker(12, 1, commits=False),
        aborted=(AbortedTransaction(producer_id=1, first_offset=3),),
        committed_only=True,
        at=10,
    )
    assert offsets(data) == []
    assert data.next_offset == 13


def test_two_aborted_transactions_of_a_producer_are_skipped() -> None:
    data = fetched(
        batch(0, 1, producer=1),
        marker(1, 1, commits=False),
        batch(2, 1, producer=1),
        marker(3, 1, commits=True),
        batch(4, 1, producer=1),
        marker(5, 1, commits=False),
        aborted=(
            AbortedTransaction(producer_id=1, first_offset=4),
            AbortedTransaction(producer_id=1, first_offset=0),
        ),
        committed_only=True,
    )
    assert offsets(data) == [2]

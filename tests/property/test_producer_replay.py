"""Producer state replayed from the headers that the kernel picks, and from all of them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.records.batch_building import build_batch
from headwater.records.batch_header import BatchHeader
from headwater.records.kernel import producer_headers, scan
from headwater.records.record import Record
from headwater.storage.producer_state.producer_state_manager import ProducerStateManager

# 65 shares its slot in the kernel with 1.
BATCHES = st.lists(
    st.tuples(
        st.sampled_from([-1, 1, 1, 1, 1, 2, 65]),
        st.sampled_from([0, 0, 0, 0, 0, 1]),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=300)
@given(BATCHES)
def test_omitted_headers_do_not_change_the_state(
    batches: list[tuple[int, int, bool]],
) -> None:
    """IDP-2: five batches of a producer are remembered, whatever came before."""
    log = b"".join(
        build_batch(
            [Record(timestamp=number)],
            base_offset=number,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=number,
            is_transactional=is_transactional,
        )
        for number, (producer_id, epoch, is_transactional) in enumerate(batches)
    )
    everything, _ = scan(log, 0, len(log))
    few, end = producer_headers(log, 0)
    assert end == len(log)
    picked, complete = replayed([header for _, header in few]), replayed(everything)
    by_id = {entry.producer_id: entry for entry in picked.entries()}
    assert by_id == {entry.producer_id: entry for entry in complete.entries()}
    assert picked.first_unstable_offset(len(batches)) == complete.first_unstable_offset(
        len(batches)
    )
    for header in everything:
        assert picked.find_duplicate(header) == complete.find_duplicate(header)


def test_one_producer_yields_five_headers_however_many_batches_it_wrote() -> None:
    batch = build_batch([Record()], producer_id=7, producer_epoch=0, base_sequence=0)
    assert len(producer_headers(batch * 1_000, 0)[0]) == 5


def replayed(headers: list[BatchHeader]) -> ProducerStateManager:
    states = ProducerStateManager()
    for header in headers:
        states.record(header, first_offset=header.base_offset, timestamp=header.max_timestamp)
    return states

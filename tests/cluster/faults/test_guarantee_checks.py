"""The checks of the fault script detect violations, and a seed is reproducible."""

from itertools import islice

import pytest

from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.cluster.faults.epochs import sent_again
from tests.cluster.faults.fault_plan import BROKERS, KINDS, Store, rounds
from tests.cluster.faults.guarantee_checks import (
    Acknowledged,
    Fate,
    Log,
    Observations,
    broken_transactions,
    value_of,
    violations,
)

VALUES = [value_of(0, number) for number in range(4)]
WHOLE: Log = {0: list(enumerate(VALUES))}


def observations() -> Observations:
    """What clients observe of a correct cluster."""
    return Observations(
        sent={0: list(VALUES)},
        acknowledged=[
            Acknowledged(partition=0, offset=offset, value=value)
            for offset, value in enumerate(VALUES)
        ],
        seen=[(0, offset, value) for offset, value in enumerate(VALUES)],
        handled=set(VALUES),
        committed={0: 3},
    )


def violations_of(log: Log, committed: int = 4) -> str:
    return "\n".join(violations(observations(), log, {0: committed}))


def test_complete_log_in_order_has_no_violations() -> None:
    assert violations_of(WHOLE) == ""


def test_lost_record_is_detected_as_acknowledged_and_as_consumed() -> None:
    said = violations_of({0: WHOLE[0][:3]})
    assert "value=b'0:3') is lost" in said
    assert "b'0:3' was seen at 3 of partition 0, and now it is None" in said


def test_record_with_the_offset_of_another_is_detected() -> None:
    other = observations()
    other.sent[0].append(b"1:0")
    log = {0: [*WHOLE[0][:3], (3, b"1:0")]}
    assert any("but there is (3, b'1:0')" in said for said in violations(other, log, {0: 4}))


def test_duplicate_record_is_detected() -> None:
    assert "b'0:3' is 2 times in partition 0" in violations_of({0: [*WHOLE[0], (4, VALUES[3])]})


def test_reordered_records_are_detected_without_known_offsets() -> None:
    unacknowledged = Observations(sent={0: list(VALUES)}, handled=set(VALUES))
    log = {0: [(0, VALUES[0]), (1, VALUES[2]), (2, VALUES[1]), (3, VALUES[3])]}
    assert violations(unacknowledged, log, {}) == [
        "b'0:1' is behind a later one, at 2 of partition 0",
    ]


def test_gap_in_the_offsets_is_detected() -> None:
    assert "offset 3 where 2 should be" in violations_of({0: [*WHOLE[0][:2], (3, VALUES[3])]})


def test_lost_commit_is_detected() -> None:
    assert (
        violations_of(WHOLE, committed=2)
        == "offset 3 of partition 0 was committed, and now it is 2"
    )


def test_record_that_the_group_never_got_is_detected() -> None:
    idle = observations()
    idle.handled.clear()
    assert len(violations(idle, WHOLE, {0: 4})) == len(VALUES)


@pytest.mark.parametrize("store", Store)
def test_seed_gives_the_same_faults_again(store: Store) -> None:
    assert list(islice(rounds(5, store), 50)) == list(islice(rounds(5, store), 50))
    assert list(islice(rounds(5, store), 50)) != list(islice(rounds(6, store), 50))


@pytest.mark.parametrize("store", Store)
def test_every_kind_of_fault_comes_soon_and_overlapping_ones_hit_different_brokers(
    store: Store,
) -> None:
    for seed in range(50):
        first = list(islice(rounds(seed, store), len(KINDS[store])))
        assert {fault.kind for each in first for fault in each.faults} == set(KINDS[store])
        for each in first:
            hurt = [victim for fault in each.faults for victim in fault.victims]
            assert sorted(hurt) == sorted(set(hurt) & set(BROKERS))


def test_acknowledged_record_without_offset_must_be_in_the_log() -> None:
    inferred = observations()
    inferred.acknowledged = [Acknowledged(partition=0, offset=None, value=VALUES[3])]
    assert violations(inferred, WHOLE, {0: 4}) == []
    assert "is lost" in "\n".join(violations(inferred, {0: WHOLE[0][:3]}, {0: 3}))


@pytest.mark.parametrize(
    ("fate", "good", "bad"),
    [
        (Fate.COMMITTED, [3], [0, 2, 6]),
        (Fate.ABORTED, [0], [1, 3]),
        (Fate.UNKNOWN, [0, 3], [1, 2, 6]),
    ],
)
def test_transaction_is_complete_or_absent_according_to_its_outcome(
    fate: Fate, good: list[int], bad: list[int]
) -> None:
    for count in good:
        assert list(broken_transactions({7: fate}, {7: count}, whole=3)) == []
    for count in bad:
        assert len(list(broken_transactions({7: fate}, {7: count}, whole=3))) == 1


def test_unknown_transaction_is_detected() -> None:
    assert len(list(broken_transactions({}, {7: 3}, whole=3))) == 1


def test_librdkafkas_retries_with_a_new_epoch_are_not_violations() -> None:
    old = build_batch([Record(value=VALUES[3])], producer_id=7, producer_epoch=0, base_sequence=3)
    new = build_batch([Record(value=VALUES[3])], producer_id=7, producer_epoch=1, base_sequence=0)
    assert sent_again(old + new) == {VALUES[3]}
    assert sent_again(old + old) == set()
    assert sent_again(old + old + new) == set()
    copied = observations()
    copied.sent_again = {(0, VALUES[3])}
    assert violations(copied, {0: [*WHOLE[0], (4, VALUES[3])]}, {0: 5}) == []
    thrice = [*WHOLE[0], (4, VALUES[3]), (5, VALUES[3])]
    assert "3 times" in "\n".join(violations(copied, {0: thrice}, {0: 6}))

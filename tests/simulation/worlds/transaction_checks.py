"""Invariants of transactions.

- A transaction is whole or absent for read_committed consumers; never half.
- One whose commit was acknowledged is there, one whose abort was acknowledged is not.
- Nothing is visible twice.
- In a partition no marker or batch of a stale epoch comes after a newer one.
- Every marker belongs to a decision in the coordinator's log.
- The epochs of a producer id never decrease, neither in the coordinator's log nor in a partition.
- Without further faults every transaction ends, and no partition blocks read_committed consumers.
"""

from collections import Counter
from dataclasses import dataclass

from headwater.coordinator.transaction.transaction_states import TransactionState
from tests.simulation.worlds.transaction_coordinator import EncodedRecord, decoded
from tests.simulation.worlds.transaction_partition import Marker, SimPartition, Value
from tests.simulation.worlds.transaction_producer import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Everything that is known in the end."""

    attempts: list[Attempt]
    partitions: list[SimPartition]
    log: list[EncodedRecord]
    states: dict[str, str]
    coordinator_lives: int

    def summary(self) -> str:
        told = Counter(attempt.told for attempt in self.attempts)
        return (
            f"{len(self.attempts)} attempts, {told[True]} committed, {told[False]} aborted, "
            f"{told[None]} unsure, {self.coordinator_lives} coordinators"
        )


def check_all(known: Knowledge) -> None:
    check_everything_ended(known)
    for partition in known.partitions:
        check_epochs_in_partition(partition)
    check_epochs_in_log(known.log)
    check_markers_were_decided(known)
    check_whole_or_absent(known)


def check_everything_ended(known: Knowledge) -> None:
    at_rest = ("Empty", "CompleteCommit", "CompleteAbort")
    stuck = {each: state for each, state in known.states.items() if state not in at_rest}
    assert not stuck, f"transactions that never end: {stuck}"
    for partition in known.partitions:
        if not partition.is_deleted:
            assert partition.last_stable_offset == len(partition.entries), (
                f"{partition.name} holds its readers back at {partition.last_stable_offset} "
                f"of {len(partition.entries)}"
            )


def check_epochs_in_partition(partition: SimPartition) -> None:
    epochs: dict[int, tuple[int, int]] = {}
    for offset, entry in enumerate(partition.entries):
        epoch, coordinator_epoch = epochs.get(entry.producer_id, (-1, -1))
        assert entry.epoch >= epoch, f"{partition.name} {offset}: epoch went back from {epoch}"
        if isinstance(entry, Marker):
            assert entry.coordinator_epoch >= coordinator_epoch, f"{partition.name} {offset}"
            coordinator_epoch = entry.coordinator_epoch
        epochs[entry.producer_id] = entry.epoch, coordinator_epoch


def check_epochs_in_log(log: list[EncodedRecord]) -> None:
    epochs: dict[int, int] = {}
    owners: dict[int, str] = {}
    for each in log:
        record = decoded(each)
        value, transactional_id = record.value, record.key.transactional_id
        if value is not None:
            producer_id = int(value.producer_id)
            assert value.producer_epoch >= epochs.get(producer_id, -1), f"epoch went back: {value}"
            assert owners.setdefault(producer_id, transactional_id) == transactional_id
            epochs[producer_id] = value.producer_epoch


def check_markers_were_decided(known: Knowledge) -> None:
    decided = {
        (value.producer_id, value.producer_epoch, TransactionState(value.transaction_status))
        for value in (decoded(each).value for each in known.log)
        if value is not None
    }
    commit, abort = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
    for partition in known.partitions:
        for entry in partition.entries:
            if isinstance(entry, Marker):
                decision = commit if entry.is_commit else abort
                assert (entry.producer_id, entry.epoch, decision) in decided, (
                    f"{partition.name}: {entry} was never decided"
                )


def check_whole_or_absent(known: Knowledge) -> None:
    gone = [partition.name for partition in known.partitions if partition.is_deleted]
    visible: Counter[Value] = Counter()
    for partition in known.partitions:
        if not partition.is_deleted:
            visible.update(partition.read_committed())
    twice = [value for value, count in visible.items() if count > 1]
    assert not twice, f"visible twice: {twice}"
    for attempt in known.attempts:
        sent = [value for partition, value in attempt.sent if partition not in gone]
        seen = [value for value in sent if value in visible]
        what = f"attempt {attempt.number} of {attempt.transactional_id}: saw {seen} of {sent}"
        if not attempt.wants_commit or attempt.told is False:
            assert not seen, f"never committed, {what}"
        elif attempt.told:
            assert seen == sent, f"committed and not all there, {what}"
        else:
            assert seen in ([], sent), f"half, {what}"

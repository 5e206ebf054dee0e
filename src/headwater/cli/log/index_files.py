"""Read a log's files of entries: indexes, producer snapshots, checkpoints.

Each reader yields entries as dicts of numbers, and findings where an entry is damaged.
"""

from collections.abc import Callable, Iterator

from headwater.storage.index.index_check import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    check_aborted,
    entries_of,
    file_problems,
)
from headwater.storage.log import leader_epoch_checkpoint
from headwater.storage.log.log_check import Finding, Readable
from headwater.storage.producer_state import producer_snapshot

Entry = dict[str, int]
EntryReader = Callable[[Readable, str, int], Iterator[Entry | Finding]]


def offset_entries(index: Readable, name: str, base_offset: int) -> Iterator[Entry | Finding]:
    yield from file_problems(index, OFFSET_ENTRY, name)
    for _, relative_offset, position in entries_of(index, OFFSET_ENTRY):
        yield {"offset": base_offset + relative_offset, "position": position}


def time_entries(index: Readable, name: str, base_offset: int) -> Iterator[Entry | Finding]:
    yield from file_problems(index, TIME_ENTRY, name)
    for _, timestamp, relative_offset in entries_of(index, TIME_ENTRY):
        yield {"timestamp": timestamp, "offset": base_offset + relative_offset}


def aborted_transactions(index: Readable, name: str, _offset: int) -> Iterator[Entry | Finding]:
    for item in check_aborted(index, name):
        yield item if isinstance(item, Finding) else item._asdict()


def producers(snapshot: Readable, _name: str, _offset: int) -> Iterator[Entry | Finding]:
    for entry in producer_snapshot.decode(snapshot.read(snapshot.size(), 0)):
        yield {
            "producer_id": entry.producer_id,
            "epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "offset_delta": entry.last_offset_delta,
            "timestamp": entry.timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }


def epochs(checkpoint: Readable, _name: str, _offset: int) -> Iterator[Entry | Finding]:
    for entry in leader_epoch_checkpoint.decode(checkpoint.read(checkpoint.size(), 0)).entries():
        yield {"epoch": entry.epoch, "start_offset": entry.start_offset}


ENTRY_FILES: dict[str, EntryReader] = {
    ".index": offset_entries,
    ".timeindex": time_entries,
    ".txnindex": aborted_transactions,
    ".snapshot": producers,
    leader_epoch_checkpoint.FILE_NAME: epochs,
}

"""Codecs of the small files: round trips, and arbitrary bytes are decoded or corrupt."""

import random
from collections.abc import Callable
from pathlib import PurePath

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headwater.common.exceptions import CorruptFile
from headwater.common.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.common.settings.java_properties import format_properties, parse_properties
from headwater.storage.index.transaction_index import AbortedTransaction, TransactionIndex
from headwater.storage.log import leader_epoch_checkpoint, partition_metadata_file
from headwater.storage.log.leader_epoch_checkpoint import EpochEntry, LeaderEpochFileCache
from headwater.storage.log_manager import checkpoints, meta_properties
from headwater.storage.log_manager.meta_properties import MetaProperties
from headwater.storage.log_manager.partition_directory_names import (
    DirectoryKind,
    PartitionDirectory,
    future_name,
    live_name,
    parse_directory_name,
)
from headwater.storage.producer_state import producer_snapshot
from headwater.storage.producer_state.producer_state_manager import ProducerEntry
from tests.simulation.fakes.lossy_disk import LossyDisk

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, 2**63 - 1)

TOPICS = st.text("abAB01._-", min_size=1, max_size=249)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TOPIC_IDS = st.binary(min_size=16, max_size=16).map(TopicId).filter(lambda id_: id_ != NO_TOPIC_ID)

ENTRIES = st.builds(
    ProducerEntry,
    producer_id=INT64,
    epoch=INT16,
    last_sequence=INT32,
    last_offset=INT64,
    last_offset_delta=INT32,
    timestamp=INT64,
    coordinator_epoch=INT32,
    transaction_first_offset=INT64,
)

DECODERS: list[Callable[[bytes], object]] = [
    checkpoints.decode_offsets,
    leader_epoch_checkpoint.decode,
    meta_properties.decode,
    partition_metadata_file.decode,
    producer_snapshot.decode,
]


@pytest.mark.parametrize("decode", DECODERS, ids=lambda decode: decode.__module__)
@given(
    content=st.binary(max_size=80)
    | st.text("012 \n-=:\\uversionid.topc_#A", max_size=80).map(str.encode)
)
def test_arbitrary_bytes_are_decoded_or_corrupt(
    decode: Callable[[bytes], object], content: bytes
) -> None:
    try:
        decode(content)
    except CorruptFile:
        return


@given(st.dictionaries(PARTITIONS, OFFSETS, max_size=8))
def test_offset_checkpoints_survive_a_round_trip(offsets: dict[TopicPartition, int]) -> None:
    assert checkpoints.decode_offsets(checkpoints.encode_offsets(offsets)) == offsets


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=12))
def test_epochs_rise_in_both_columns_and_survive_a_round_trip(
    assigned: list[tuple[int, int]],
) -> None:
    """EP-2"""
    epochs = LeaderEpochFileCache()
    for epoch, start_offset in assigned:
        epochs.assign(epoch, start_offset)
        assert epochs.latest == epoch
    entries = epochs.entries()
    for column in zip(*entries, strict=True):
        assert list(column) == sorted(set(column))
    assert leader_epoch_checkpoint.decode(epochs.encode()).entries() == entries


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=8),
    st.integers(0, 99),
    st.integers(0, 99),
)
def test_truncation_keeps_the_epoch_of_every_offset_between(
    assigned: list[tuple[int, int]], start_offset: int, end_offset: int
) -> None:
    """EP-2"""
    whole, cut = LeaderEpochFileCache(), LeaderEpochFileCache()
    for epoch, offset in assigned:
        whole.assign(epoch, offset)
        cut.assign(epoch, offset)
    cut.truncate_from_end(end_offset)
    cut.truncate_from_start(start_offset)
    for offset in range(start_offset, end_offset):
        assert cut.epoch_for_offset(offset) == whole.epoch_for_offset(offset)
    assert all(start_offset <= entry.start_offset for entry in cut.entries())


@given(st.lists(st.builds(EpochEntry, st.integers(0, 9), st.integers(0, 99)), max_size=8))
def test_epoch_end_is_the_first_offset_of_a_later_epoch(
    assigned: list[EpochEntry],
) -> None:
    """EP-3, by walking over all offsets"""
    epochs = LeaderEpochFileCache(assigned)
    for asked in range(max(epochs.latest, 0)):
        found = epochs.end_offset_for(asked, log_end_offset=100)
        later = [offset for offset in range(100) if epochs.epoch_for_offset(offset) > asked]
        known = [entry.epoch for entry in epochs.entries() if entry.epoch <= asked]
        assert found == (max(known, default=asked), later[0])


@given(st.lists(ENTRIES, max_size=5))
def test_snapshots_survive_a_round_trip(entries: list[ProducerEntry]) -> None:
    assert producer_snapshot.decode(producer_snapshot.encode(entries)) == entries


@given(st.integers(0, 2**31 - 1), TEXTS, st.none() | TOPIC_IDS.map(str))
def test_meta_properties_survive_a_round_trip(
    node_id: int, cluster_id: str, directory_id: str | None
) -> None:
    meta = MetaProperties(node_id=node_id, cluster_id=cluster_id, directory_id=directory_id)
    assert meta_properties.decode(meta_properties.encode(meta)) == meta


@given(st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_properties_survive_a_round_trip(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values)) == values


@given(TOPIC_IDS)
def test_partition_metadata_survives_a_round_trip(topic_id: TopicId) -> None:
    assert partition_metadata_file.decode(partition_metadata_file.encode(topic_id)) == topic_id


@given(PARTITIONS, st.binary(min_size=16, max_size=16))
def test_directory_names_survive_a_round_trip(partition: TopicPartition, unique: bytes) -> None:
    assert parse_directory_name(live_name(partition)) == PartitionDirectory(
        partition, DirectoryKind.LIVE
    )
    future = parse_directory_name(future_name(partition, unique))
    assert future == PartitionDirectory(partition, DirectoryKind.FUTURE)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), max_size=12),
    st.integers(0, 60),
    st.integers(1, 30),
)
def test_transaction_index_lookup_equals_a_scan(
    steps: list[tuple[int, int]], fetch_offset: int, count: int
) -> None:
    """LSO-2"""
    upper_offset = fetch_offset + count
    disk = LossyDisk(random.Random(0))
    disk.make_directory(PurePath("/p"))
    index = TransactionIndex(disk, PurePath("/p/x.txnindex"), base_offset=0)
    last_offset = 0
    entries = []
    for step, length in steps:
        last_offset += step
        first_offset = max(0, last_offset - length)
        entries.append(AbortedTransaction(1, first_offset, last_offset, last_offset + 1))
        index.append(entries[-1])
    found, complete = index.collect(fetch_offset, upper_offset)
    decided = [entry.last_stable_offset >= upper_offset for entry in entries]
    looked_at = entries[: decided.index(True) + 1] if any(decided) else entries
    assert found == [
        entry
        for entry in looked_at
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_offset
    ]
    later = [entry for entry in entries if entry.last_offset >= fetch_offset]
    assert complete is any(entry.last_stable_offset >= upper_offset for entry in later)

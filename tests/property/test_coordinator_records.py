"""Records of internal topics: round trips, and arbitrary bytes are decoded or rejected."""

from contextlib import suppress
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.common.exceptions import UnreadableRecord
from headwater.common.ids import ProducerId, TopicId
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from headwater.coordinator.records.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    GroupMemberKey,
    TopicPartitions,
)
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from headwater.coordinator.records.record_serde import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    RecordSerde,
    UnknownRecord,
)
from headwater.coordinator.records.transaction_records import (
    TransactionLogKey,
    TransactionLogRecord,
    TransactionLogValue,
    TransactionPartitions,
)

T = TypeVar("T")

texts = st.text(max_size=12)
nullable_texts = st.none() | texts
int8s = st.integers(-(2**7), 2**7 - 1)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
producer_ids = int64s.map(ProducerId)
blobs = st.binary(max_size=12)


def tuples(items: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(items, max_size=3).map(tuple)


topic_ids = st.binary(min_size=16, max_size=16).map(TopicId)
offset_commits = st.builds(
    OffsetCommitRecord,
    st.builds(OffsetCommitKey, group=texts, topic=texts, partition=int32s),
    st.none()
    | st.builds(
        OffsetCommitValue,
        offset=int64s,
        leader_epoch=int32s,
        metadata=texts,
        commit_timestamp=int64s,
        topic_id=topic_ids,
    ),
)
classic_members = st.builds(
    MemberMetadata,
    member_id=texts,
    group_instance_id=nullable_texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout=int32s,
    session_timeout=int32s,
    subscription=blobs,
    assignment=blobs,
)
classic_groups = st.builds(
    GroupMetadataRecord,
    st.builds(GroupMetadataKey, group=texts),
    st.none()
    | st.builds(
        GroupMetadataValue,
        protocol_type=texts,
        generation=int32s,
        protocol=nullable_texts,
        leader=nullable_texts,
        current_state_timestamp=int64s,
        members=tuples(classic_members),
    ),
)
consumer_members = st.builds(
    ConsumerGroupMemberMetadataRecord,
    st.builds(GroupMemberKey, group_id=texts, member_id=texts),
    st.none()
    | st.builds(
        ConsumerGroupMemberMetadataValue,
        instance_id=nullable_texts,
        rack_id=nullable_texts,
        client_id=texts,
        client_host=texts,
        subscribed_topic_names=tuples(texts),
        subscribed_topic_regex=nullable_texts,
        rebalance_timeout_ms=int32s,
        server_assignor=nullable_texts,
        classic_member_metadata=st.none()
        | st.builds(
            ClassicMemberMetadata,
            session_timeout_ms=int32s,
            supported_protocols=tuples(st.builds(ClassicProtocol, name=texts, metadata=blobs)),
        ),
    ),
)
topic_partitions = tuples(st.builds(TopicPartitions, topic_id=topic_ids, partitions=tuples(int32s)))
current_assignments = st.builds(
    ConsumerGroupCurrentMemberAssignmentRecord,
    st.builds(GroupMemberKey, group_id=texts, member_id=texts),
    st.none()
    | st.builds(
        ConsumerGroupCurrentMemberAssignmentValue,
        member_epoch=int32s,
        previous_member_epoch=int32s,
        state=int8s,
        assigned_partitions=topic_partitions,
        partitions_pending_revocation=topic_partitions,
    ),
)
transactions = st.builds(
    TransactionLogRecord,
    st.builds(TransactionLogKey, transactional_id=texts),
    st.none()
    | st.builds(
        TransactionLogValue,
        producer_id=producer_ids,
        previous_producer_id=producer_ids,
        next_producer_id=producer_ids,
        producer_epoch=int16s,
        next_producer_epoch=int16s,
        transaction_timeout_ms=int32s,
        transaction_status=int8s,
        transaction_partitions=st.none()
        | tuples(st.builds(TransactionPartitions, topic=texts, partition_ids=tuples(int32s))),
        transaction_last_update_timestamp_ms=int64s,
        transaction_start_timestamp_ms=int64s,
        client_transaction_version=int16s,
    ),
)
codecs = st.sampled_from((GROUP_RECORDS, TRANSACTION_RECORDS))


@given(st.one_of(offset_commits, classic_groups, consumer_members, current_assignments))
def test_group_record_survives_a_round_trip(
    record: OffsetCommitRecord | GroupMetadataRecord,
) -> None:
    assert GROUP_RECORDS.decode(*GROUP_RECORDS.encode(record)) == record


@given(transactions)
def test_transaction_record_survives_a_round_trip(record: TransactionLogRecord) -> None:
    assert TRANSACTION_RECORDS.decode(*TRANSACTION_RECORDS.encode(record)) == record


@given(
    codec=codecs,
    record_type=st.integers(0, 16),
    version=st.integers(0, 4),
    key=st.binary(max_size=60),
    value=st.binary(max_size=90),
)
def test_arbitrary_bytes_are_a_record_or_rejected(
    codec: RecordSerde, record_type: int, version: int, key: bytes, value: bytes
) -> None:
    key = record_type.to_bytes(2, "big") + key
    value = version.to_bytes(2, "big") + value
    with suppress(UnreadableRecord):
        codec.decode(memoryview(key), memoryview(value))


@given(
    codec=codecs, key=st.none() | st.binary(max_size=20), value=st.none() | st.binary(max_size=20)
)
def test_random_bytes_are_rejected_or_unknown(
    codec: RecordSerde, key: bytes | None, value: bytes | None
) -> None:
    with suppress(UnreadableRecord):
        codec.decode(key, value)


@given(record=offset_commits, cut=st.integers(0, 100))
def test_truncated_record_is_rejected(record: OffsetCommitRecord, cut: int) -> None:
    key, _ = GROUP_RECORDS.encode(record)
    shorter = key[: min(cut, len(key) - 1)]
    with pytest.raises(UnreadableRecord):
        GROUP_RECORDS.decode(shorter, None)


@given(codec=codecs, record_type=st.integers(17, 2**15 - 1), value=st.none() | st.binary())
def test_record_of_an_unknown_type_is_reported_and_not_rejected(
    codec: RecordSerde, record_type: int, value: bytes | None
) -> None:
    key = record_type.to_bytes(2, "big") + b"whatever"
    assert codec.decode(key, value) == UnknownRecord(record_type)

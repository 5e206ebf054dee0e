"""Encoding of the internal topics, derived by hand from Kafka's schemas."""

import pytest

from headwater.common.exceptions import UnreadableRecord
from headwater.common.ids import NO_TOPIC_ID, ProducerId, TopicId
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
)
from headwater.coordinator.records.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    GroupKey,
    GroupMemberKey,
)
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from headwater.coordinator.records.record_serde import GROUP_RECORDS, TRANSACTION_RECORDS
from headwater.coordinator.records.transaction_records import (
    TransactionLogKey,
    TransactionLogRecord,
    TransactionLogValue,
)

KEY = OffsetCommitKey(group="g", topic="t", partition=3)
KEY_BYTES = b"\0\1\0\1g\0\1t\0\0\0\3"


def test_the_key_of_a_commit_starts_with_its_type() -> None:
    assert GROUP_RECORDS.encode(OffsetCommitRecord(KEY, None)) == (KEY_BYTES, None)


def test_a_commit_is_written_in_the_first_flexible_version() -> None:
    value = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=1)
    _, written = GROUP_RECORDS.encode(OffsetCommitRecord(KEY, value))
    assert written == bytes.fromhex("0004 0000000000000007 00000002 02 6d 0000000000000001 00")


def test_a_commit_with_its_own_expiry_is_written_in_version_1() -> None:
    """OE-2."""
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=1, expire_timestamp=9)
    _, written = GROUP_RECORDS.encode(OffsetCommitRecord(KEY, value))
    number = "{:016x}".format
    assert written == bytes.fromhex(f"0001 {number(7)} 0001 6d {number(1)} {number(9)}")
    assert GROUP_RECORDS.decode(KEY_BYTES, written) == OffsetCommitRecord(KEY, value)


def test_commits_of_brokers_before_0_8_2_1_are_read_as_commits() -> None:
    old_key = b"\0\0" + KEY_BYTES[2:]
    old_value = b"\0\0" + (7).to_bytes(8, "big") + b"\0\1m" + (1).to_bytes(8, "big")
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=1)
    assert GROUP_RECORDS.decode(old_key, old_value) == OffsetCommitRecord(KEY, value)


def test_a_classic_group_is_written_in_the_last_version_that_is_not_flexible() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=2, protocol="range", current_state_timestamp=5
    )
    record = GroupMetadataRecord(GroupMetadataKey(group="g"), value)
    key, written = GROUP_RECORDS.encode(record)
    assert key == b"\0\2\0\1g"
    assert written == (b"\0\3\0\10consumer\0\0\0\2\0\5range\xff\xff\0\0\0\0\0\0\0\5\0\0\0\0")


def test_the_hash_of_a_consumer_group_is_a_tagged_field() -> None:
    value = ConsumerGroupMetadataValue(epoch=4, metadata_hash=1)
    record = ConsumerGroupMetadataRecord(GroupKey(group_id="g"), value)
    assert GROUP_RECORDS.encode(record) == (
        b"\0\3\0\1g",
        b"\0\0\0\0\0\4\1\0\10\0\0\0\0\0\0\0\1",
    )


def test_a_null_classic_member_is_a_tagged_field() -> None:
    """As in Kafka 4.1: within a tag null is 0, unlike a missing tag."""
    key = GroupMemberKey(group_id="g", member_id="m")
    record = ConsumerGroupMemberMetadataRecord(key, ConsumerGroupMemberMetadataValue())
    key_bytes, written = GROUP_RECORDS.encode(record)
    assert written == bytes.fromhex("0000 00 00 01 01 01 00 ffffffff 00 01 00 01 00")
    assert GROUP_RECORDS.decode(key_bytes, written) == record


def test_a_classic_member_of_a_consumer_group_has_its_protocols() -> None:
    classic = ClassicMemberMetadata(session_timeout_ms=5)
    key = GroupMemberKey(group_id="g", member_id="m")
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=classic)
    record = ConsumerGroupMemberMetadataRecord(key, value)
    key_bytes, written = GROUP_RECORDS.encode(record)
    assert written == bytes.fromhex("0000 00 00 01 01 01 00 ffffffff 00 01 00 07 01 00000005 01 00")
    assert GROUP_RECORDS.decode(key_bytes, written) == record


def test_the_partitions_of_an_empty_transaction_are_null() -> None:
    value = TransactionLogValue(
        producer_id=ProducerId(1000), transaction_timeout_ms=60000, client_transaction_version=2
    )
    record = TransactionLogRecord(TransactionLogKey(transactional_id="x"), value)
    key, written = TRANSACTION_RECORDS.encode(record)
    assert key == b"\0\0\0\1x"
    assert written == bytes.fromhex(
        "0001 00000000000003e8 0000 0000ea60 00 00 ffffffffffffffff ffffffffffffffff 01 02 02 0002"
    )
    assert TRANSACTION_RECORDS.decode(key, written) == record


@pytest.mark.parametrize("version", [5, -1])
def test_an_unsupported_value_version_is_rejected_by_name(version: int) -> None:
    value = version.to_bytes(2, "big", signed=True) + bytes(40)
    with pytest.raises(UnreadableRecord, match=f"version {version} of OffsetCommitValue"):
        GROUP_RECORDS.decode(KEY_BYTES, value)


def test_the_topic_id_of_a_commit_is_stored() -> None:
    for topic_id in (NO_TOPIC_ID, TopicId(bytes(range(16)))):
        record = OffsetCommitRecord(KEY, OffsetCommitValue(offset=7, topic_id=topic_id))
        assert GROUP_RECORDS.decode(*GROUP_RECORDS.encode(record)) == record

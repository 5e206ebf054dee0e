"""Older versions with another meaning: what handlers see, and what old clients get."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import UnsupportedInVersion
from headwater.common.ids import TopicId
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headwater.protocol.messages.list_config_resources import (
    CLIENT_METRICS,
    ListConfigResourcesRequest,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headwater.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from headwater.protocol.older_versions import Message
from tests.unit.protocol.bytes_of import read_bytes, written

ONE_GROUP = OffsetFetchRequest(
    groups=(
        OffsetFetchRequestGroup(
            group_id="g",
            topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0, 7)),),
        ),
    ),
)
ONE_GROUP_ANSWER = OffsetFetchResponse(
    groups=(
        OffsetFetchResponseGroup(
            topics=(
                OffsetFetchResponseTopics(
                    name="t",
                    partitions=(
                        OffsetFetchResponsePartitions(partition_index=7, committed_offset=9),
                    ),
                ),
            ),
            error_code=ErrorCode.NOT_COORDINATOR,
        ),
    ),
)
ONE_TRANSACTION = AddPartitionsToTxnRequest(
    transactions=(
        AddPartitionsToTxnTransaction(
            transactional_id="x",
            producer_id=5,
            producer_epoch=6,
            topics=(AddPartitionsToTxnTopic(name="t", partitions=(1, 2)),),
        ),
    ),
)
ONE_TRANSACTION_ANSWER = AddPartitionsToTxnResponse(
    results_by_transaction=(
        AddPartitionsToTxnResult(
            topic_results=(
                AddPartitionsToTxnTopicResult(
                    name="t",
                    results_by_partition=(
                        AddPartitionsToTxnPartitionResult(
                            partition_index=1,
                            partition_error_code=ErrorCode.INVALID_TXN_STATE,
                        ),
                    ),
                ),
            ),
        ),
    ),
)
ONE_COORDINATOR = FindCoordinatorResponse(
    coordinators=(Coordinator(node_id=1, host="h", port=9092, error_code=ErrorCode.NONE),)
)
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=30,
    rebalance_timeout_ms=30,
    protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range", metadata=b"m"),),
)


@pytest.mark.parametrize(
    ("message", "versions"),
    [
        (ONE_GROUP, range(1, 10)),
        (ONE_GROUP_ANSWER, range(2, 10)),
        (FindCoordinatorRequest(key_type=1, coordinator_keys=("k",)), range(1, 7)),
        (FindCoordinatorRequest(coordinator_keys=("k",)), range(7)),
        (ONE_COORDINATOR, range(7)),
        (DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=3), range(1, 7)),
        (LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),)), range(6)),
        (LeaveGroupResponse(members=(MemberResponse(),)), range(6)),
        (ONE_TRANSACTION, range(6)),
        (ONE_TRANSACTION_ANSWER, range(6)),
        (JOIN, range(10)),
        (MetadataRequest(topics=None), range(14)),
        (MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), range(14)),
        (ListConfigResourcesRequest(resource_types=(CLIENT_METRICS,)), range(2)),
        (
            UpdateFeaturesRequest(
                feature_updates=(
                    FeatureUpdateKey(feature="a", max_version_level=2),
                    FeatureUpdateKey(feature="b", upgrade_type=SAFE_DOWNGRADE),
                )
            ),
            range(3),
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, range) else "",
)
def test_same_message_is_decoded_from_every_version(message: Message, versions: range) -> None:
    for version in versions:
        assert read_bytes(type(message), version, written(message, version)) == message, version


def test_several_groups_cannot_be_encoded_in_a_version_for_one() -> None:
    two = OffsetFetchRequest(groups=ONE_GROUP.groups * 2)
    assert read_bytes(OffsetFetchRequest, 8, written(two, 8)) == two
    with pytest.raises(UnsupportedInVersion):
        written(two, 7)


def test_empty_topics_in_metadata_version_0_mean_all_topics() -> None:
    """Since version 1 an empty list means none, and null means all."""
    assert read_bytes(MetadataRequest, 0, b"\0\0\0\0").topics is None
    assert read_bytes(MetadataRequest, 1, b"\0\0\0\0").topics == ()
    assert read_bytes(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None


def test_version_0_of_join_group_has_one_timeout_for_both() -> None:
    body = b"\0\1g" + b"\0\0\0\x1e" + b"\0\0" + b"\0\0" + b"\0\0\0\0"
    joined = read_bytes(JoinGroupRequest, 0, body)
    assert (joined.session_timeout_ms, joined.rebalance_timeout_ms) == (30, 30)


def test_old_leave_group_response_has_the_error_of_its_member() -> None:
    unknown = MemberResponse(member_id="m", error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert written(LeaveGroupResponse(members=(unknown,)), 0) == b"\0\x19"
    failed = LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert written(failed, 0) == b"\0\x10"


def test_topic_id_cannot_be_encoded_in_a_version_with_names() -> None:
    by_id = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=TopicId(b"0" * 16)),))
    with pytest.raises(UnsupportedInVersion):
        written(by_id, 5)


def test_ignorable_field_is_dropped_and_any_other_is_rejected() -> None:
    """Metadata has topic ids since version 10 and authorized operations since version 8."""
    topic = MetadataResponseTopic(name="t", topic_id=TopicId(b"0" * 16))
    answered = read_bytes(MetadataResponse, 9, written(MetadataResponse(topics=(topic,)), 9))
    assert answered == MetadataResponse(topics=(MetadataResponseTopic(name="t"),))

    allowed = MetadataResponseTopic(name="t", topic_authorized_operations=3)
    with pytest.raises(UnsupportedInVersion, match="topic_authorized_operations"):
        written(MetadataResponse(topics=(allowed,)), 7)


def test_list_offsets_without_leader_epoch_for_old_clients() -> None:
    """ListOffsets has the leader epoch since version 4."""
    found = ListOffsetsPartitionResponse(offset=7, leader_epoch=3)
    answer = ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=(found,)),))
    read = read_bytes(ListOffsetsResponse, 1, written(answer, 1))
    assert read.topics[0].partitions == (ListOffsetsPartitionResponse(offset=7),)


def test_null_is_rejected_if_the_version_has_no_null() -> None:
    nameless = MetadataResponse(topics=(MetadataResponseTopic(name=None),))
    assert read_bytes(MetadataResponse, 12, written(nameless, 12)) == nameless
    with pytest.raises(UnsupportedInVersion, match="name cannot be null"):
        written(nameless, 11)

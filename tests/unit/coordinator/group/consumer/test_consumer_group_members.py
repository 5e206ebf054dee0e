"""Static members, regular expressions, descriptions and queries (NG-7..9)."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.consumer import consumer_group_record_values as record_values
from headwater.coordinator.group.consumer.consumer_group_description import describe
from headwater.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from headwater.coordinator.group.group import Group, GroupType
from headwater.coordinator.records.consumer_group_records import (
    ConsumerGroupPartitionMetadataRecord,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionRecord,
    GroupKey,
)
from headwater.protocol.messages import consumer_group_describe as described
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.simulation.labs.consumer_group_lab import GROUP, GroupLab
from tests.simulation.labs.consumer_group_requests import beat, joining, of, told


def static_beat(member_id: str, epoch: int, instance_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, instance_id=instance_id
    )


def test_a_live_instance_id_cannot_be_used_by_another_join() -> None:
    """NG-7: not even with the same member id, as in Kafka 4.1."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks", instance_id="i"))
    for member_id in ("a", "b"):
        response = lab.heartbeat(joining(member_id, "clicks", instance_id="i"))
        assert response.error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert lab.heartbeat(beat("a", 1)) == told(1, None)


def test_an_instance_that_left_temporarily_keeps_its_assignment() -> None:
    """NG-7: no new epoch, and nothing moves."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks", instance_id="i"))
    assert lab.heartbeat(static_beat("a", -2, "i")) == ConsumerGroupHeartbeatResponse(
        member_id="a", member_epoch=-2
    )
    assert lab.heartbeat(static_beat("a", 1, "i")).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert lab.heartbeat(joining("b", "clicks", instance_id="i")) == told(1, of(clicks, 0, 1), "b")
    assert list(lab.group.state.members) == ["b"]
    assert lab.group.state.epoch == 1
    assert lab.heartbeat(static_beat("a", 1, "i")).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert lab.heartbeat(static_beat("a", -1, "i")).error_code is ErrorCode.FENCED_INSTANCE_ID


def test_partitions_of_an_absent_instance_wait_until_its_session_ends() -> None:
    """NG-6, NG-7."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks", instance_id="i"))
    lab.heartbeat(static_beat("a", -2, "i"))
    lab.pass_time(30_000)
    assert lab.heartbeat(joining("b", "clicks")) == told(2, (), "b")
    lab.pass_time(15_000)
    assert lab.heartbeat(beat("b", 2)) == told(3, of(clicks, 0, 1), "b")


def test_an_instance_that_leaves_for_good_is_removed() -> None:
    """NG-7."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks", instance_id="i"))
    lab.heartbeat(static_beat("a", -1, "i"))
    assert lab.group.is_empty
    assert lab.heartbeat(static_beat("a", 1, "i")).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.heartbeat(joining("b", "clicks", instance_id="i")).error_code is ErrorCode.NONE


def test_an_unknown_instance_is_an_unknown_member() -> None:
    """NG-7."""
    lab = GroupLab()
    lab.heartbeat(joining("a", "clicks"))
    assert lab.heartbeat(static_beat("a", 1, "x")).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_regular_expression_is_resolved_to_topics_and_recorded() -> None:
    """NG-9: it must match a whole name."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    lab.create_topic("old-clicks", 1)
    response = lab.heartbeat(joining("a", regex="c.*"))
    assert response == told(1, of(clicks, 0))
    resolved = [
        each for each in lab.records if isinstance(each, ConsumerGroupRegularExpressionRecord)
    ]
    assert [each.value and each.value.topics for each in resolved] == [("clicks",)]
    assert lab.group.is_subscribed_to("clicks")
    assert not lab.group.is_subscribed_to("old-clicks")


def test_new_matching_topics_are_found_but_not_at_every_heartbeat() -> None:
    """NG-9: ten seconds between two refreshes."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", regex="c.*"))
    lab.heartbeat(beat("a", 1))
    calls = lab.create_topic("calls", 1)
    lab.pass_time(9_999)
    assert lab.heartbeat(beat("a", 1)) == told(1, None)
    lab.pass_time(1)
    assert lab.heartbeat(beat("a", 1)) == told(2, (*of(clicks, 0), *of(calls, 0)))


def test_new_matching_topics_are_found_although_the_clock_is_set_back() -> None:
    """NG-9."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", regex="c.*"))
    lab.heartbeat(beat("a", 1))
    calls = lab.create_topic("calls", 1)
    lab.now_ms -= 3_600_000
    assert lab.heartbeat(beat("a", 1)) == told(2, (*of(clicks, 0), *of(calls, 0)))


def test_an_unused_expression_is_removed() -> None:
    """NG-9."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", regex="c.*"))
    lab.heartbeat(joining("b", regex="[abc].*"))
    assert sorted(lab.group.state.regexes) == ["[abc].*", "c.*"]
    lab.heartbeat(beat("a", -1))
    assert sorted(lab.group.state.regexes) == ["[abc].*"]


def test_an_expensive_expression_is_rejected_only_for_the_member_that_sends_it() -> None:
    """NG-9. One that another coordinator accepted keeps its topics."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    costly = "(.?){1000}" * 30
    refused = lab.heartbeat(joining("a", regex=costly))
    assert refused.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert lab.records == []
    lab.heartbeat(joining("a", "clicks"))
    unknown_member = ConsumerGroupMember(
        member_id="b", subscribed_topic_regex=costly, rebalance_timeout_ms=1, member_epoch=1
    )
    lab.group.replay(record_values.member_metadata(GROUP, unknown_member))
    lab.create_topic("views", 1)
    lab.pass_time(20_000)
    assert lab.heartbeat(beat("a", 1)).error_code is ErrorCode.NONE
    assert lab.group.state.topics_of_regex(costly) == ()


def test_an_invalid_expression_is_rejected_and_changes_nothing() -> None:
    """NG-9."""
    lab = GroupLab()
    response = lab.heartbeat(joining("a", regex="c["))
    assert response.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert lab.records == []


def test_a_group_is_described_with_topic_names() -> None:
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks", instance_id="i"))
    assignment = described.Assignment(
        topic_partitions=(
            described.TopicPartitions(topic_id=clicks, topic_name="clicks", partitions=(0,)),
        )
    )
    expected = described.DescribedGroup(
        group_id=GROUP,
        group_state="Stable",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="uniform",
        members=(
            described.Member(
                member_id="a",
                instance_id="i",
                member_epoch=1,
                client_id="tester",
                client_host="/127.0.0.1",
                subscribed_topic_names=("clicks",),
                subscribed_topic_regex="",
                assignment=assignment,
                target_assignment=assignment,
                member_type=1,
            ),
        ),
    )
    assert describe(lab.group, lab.image) == expected


def test_a_group_that_never_existed_is_not_found() -> None:
    assert describe(GroupLab().group, GroupLab().image).error_code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "refusal"),
    [
        ("a", 1, 9, None),
        ("a", 0, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 2, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 1, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("b", 1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_a_member_with_its_current_epoch_may_commit(
    member_id: str, epoch: int, version: int, refusal: ErrorCode | None
) -> None:
    """NG-8."""
    lab = GroupLab()
    lab.heartbeat(joining("a", "clicks"))
    assert (
        lab.group.validate_commit(
            member_id=member_id,
            group_instance_id=None,
            generation_or_epoch=epoch,
            is_transactional=False,
            version=version,
        )
        is refusal
    )


def test_versions_do_not_matter_in_a_transaction_nor_commits_without_members() -> None:
    """NG-8, TX-11."""
    lab = GroupLab()
    lab.heartbeat(joining("a", "clicks"))
    assert (
        lab.group.validate_commit(
            member_id="a",
            group_instance_id=None,
            generation_or_epoch=1,
            is_transactional=True,
            version=3,
        )
        is None
    )
    lab.heartbeat(beat("a", -1))
    assert (
        lab.group.validate_commit(
            member_id="",
            group_instance_id=None,
            generation_or_epoch=-1,
            is_transactional=False,
            version=2,
        )
        is None
    )


def test_fetching_offsets_as_a_member_requires_its_epoch() -> None:
    """NG-8."""
    group = GroupLab().group
    assert group.validate_fetch(member_id=None, member_epoch=-1) is None
    lab = GroupLab()
    lab.heartbeat(joining("a", "clicks"))
    assert lab.group.validate_fetch(member_id="a", member_epoch=1) is None
    assert lab.group.validate_fetch(member_id="a", member_epoch=5) is ErrorCode.STALE_MEMBER_EPOCH
    assert lab.group.validate_fetch(member_id="x", member_epoch=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_is_deleted_and_its_tombstones_leave_nothing() -> None:
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", regex="c.*"))
    group: Group = lab.group
    assert group.group_type is GroupType.CONSUMER
    assert group.validate_delete() is ErrorCode.NON_EMPTY_GROUP
    for record in lab.group.tombstones():
        lab.group.replay(record)
    assert lab.group.state == GroupLab().group.state
    assert lab.group.validate_delete() is None


def test_topic_metadata_of_an_older_broker_is_removed_with_the_next_epoch() -> None:
    """As in Kafka 4.1, where a hash replaced it."""
    lab = GroupLab()
    lab.heartbeat(joining("a", "clicks"))
    key = GroupKey(group_id=GROUP)
    value = ConsumerGroupPartitionMetadataValue()
    lab.group.replay(ConsumerGroupPartitionMetadataRecord(key, value))
    lab.create_topic("clicks", 1)
    lab.heartbeat(beat("a", 1))
    assert record_values.no_partition_metadata(GROUP) in lab.records
    assert not lab.group.state.has_partition_metadata


def test_a_member_in_an_unknown_state_must_rejoin() -> None:
    """NG-3: and continues as soon as it owns nothing."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    member = lab.group.state.members["a"]
    record = record_values.current_assignment(GROUP, member)
    assert record.value is not None
    from_the_future = type(record.value)(
        member_epoch=1,
        previous_member_epoch=0,
        state=9,
        assigned_partitions=record.value.assigned_partitions,
    )
    lab.group.replay(type(record)(record.key, from_the_future))
    assert lab.heartbeat(beat("a", 1)).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert lab.heartbeat(beat("a", 1, ())) == told(1, None)
    assert lab.heartbeat(beat("a", 1, of(clicks, 0))) == told(1, None)

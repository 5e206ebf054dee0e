"""Error responses of group coordinators."""

import re
from dataclasses import replace

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.protocol.messages.delete_groups import DeleteGroupsRequest
from headwater.protocol.messages.describe_groups import DescribeGroupsRequest
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headwater.protocol.messages.sync_group import SyncGroupRequest
from headwater.protocol.older_versions import Message
from tests.peers.lab import Lab

UNKNOWN_TOPIC = TopicId(b"\x77" * 16)


def await_coordinator(lab: Lab, group: str) -> str:
    """A group name, once it has a coordinator."""
    lab.until(
        FindCoordinatorRequest(coordinator_keys=(group,)),
        FindCoordinatorResponse,
        lambda answer: answer.coordinators[0].error_code is ErrorCode.NONE,
    )
    lab.until(
        HeartbeatRequest(group_id=group, member_id="unknown"),
        HeartbeatResponse,
        lambda answer: answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID,
    )
    return group


def _joining(group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0"),),
    )


def refused_joins(lab: Lab) -> None:
    good = _joining(await_coordinator(lab, lab.named()))
    for version in (3, 6, 7, 9):
        for label, request in (
            ("no group", _joining("")),
            ("a session too short", replace(good, session_timeout_ms=1)),
            ("a session too long", replace(good, session_timeout_ms=2_000_000)),
            ("an unknown member", replace(good, member_id="unknown")),
            ("no protocols", replace(good, protocols=())),
            ("no protocol type", replace(good, protocol_type="")),
        ):
            lab.show(f"version {version}: {label}", request, version)


def requests_of_unknown_members(lab: Lab) -> None:
    group = await_coordinator(lab, lab.named())
    requests: dict[str, Message] = {
        "heartbeat": HeartbeatRequest(group_id=group, member_id="unknown"),
        "heartbeat of an instance": HeartbeatRequest(
            group_id=group, member_id="unknown", group_instance_id="till"
        ),
        "heartbeat without a group": HeartbeatRequest(group_id="", member_id="unknown"),
        "sync": SyncGroupRequest(
            group_id=group, member_id="x", protocol_type="consumer", protocol_name="range"
        ),
        "sync without a protocol": SyncGroupRequest(group_id=group, member_id="x"),
        "leave": LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id="x"),)),
        "leave without a group": LeaveGroupRequest(
            group_id="", members=(MemberIdentity(member_id="x"),)
        ),
        "describe": DescribeGroupsRequest(groups=(group, "")),
        "describe as a consumer group": ConsumerGroupDescribeRequest(group_ids=(group, "")),
        "delete": DeleteGroupsRequest(groups_names=(group, "", group)),
    }
    for label, request in requests.items():
        lab.show(label, request, unordered=True)
    lab.show("describe, version 5", DescribeGroupsRequest(groups=(group,)), 5)
    allowed = DescribeGroupsRequest(groups=(group,), include_authorized_operations=True)
    lab.show("what may be done to it", allowed, 5)
    lab.show("what may be done to it, later", allowed)
    lab.show("nothing described", DescribeGroupsRequest())
    lab.show("nothing deleted", DeleteGroupsRequest())


def _commit(
    group: str, *topics: tuple[str, TopicId | None], partition: int = 0
) -> OffsetCommitRequest:
    place = OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)
    return OffsetCommitRequest(
        group_id=group,
        topics=tuple(
            OffsetCommitRequestTopic(name=name, partitions=(place,))
            if topic_id is None
            else OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=(place,))
            for name, topic_id in topics
        ),
    )


def _fetch(group: str, *topics: OffsetFetchRequestTopics) -> OffsetFetchRequest:
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    return OffsetFetchRequest(groups=(asked,))


def offsets_by_name_and_id(lab: Lab) -> None:
    group = await_coordinator(lab, lab.named())
    topic = lab.topic(partitions=2)
    topic_id = lab.topic_id(topic)
    commits = (
        ("commit by name", _commit(group, (topic, None), ("nowhere", None)), 9),
        ("commit by id", _commit(group, ("", topic_id), ("", UNKNOWN_TOPIC)), 10),
        ("commit by no id", _commit(group, ("", None)), 10),
        ("commit beyond the last partition", _commit(group, (topic, None), partition=9), 9),
        ("commit to no group", _commit("", (topic, None)), 9),
    )
    by_name = OffsetFetchRequestTopics(name=topic, partition_indexes=(0, 1, 9))
    by_id = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=(0, 1, 9))
    unknown = OffsetFetchRequestTopics(topic_id=UNKNOWN_TOPIC, partition_indexes=(0,))
    no_id = OffsetFetchRequestTopics(partition_indexes=(0,))
    nowhere = OffsetFetchRequestTopics(name="nowhere", partition_indexes=(0,))
    fetches = (
        ("fetch by name", _fetch(group, by_name, nowhere), 9),
        ("fetch by id", _fetch(group, by_id, unknown), 10),
        ("fetch by no id", _fetch(group, no_id), 10),
        ("fetch of an unknown group", _fetch(lab.named("unknown"), by_id), 10),
        ("fetch of no group", _fetch("", by_id), 10),
        ("fetch as an unknown member", _fetch_as(group, "unknown", 3, by_id), 10),
    )
    for label, request, version in (*commits, *fetches):
        lab.show(label, request, version, unordered=True)
    everything = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
    lab.show("fetch all by id", everything, 10)
    lab.show("fetch all by name", everything, 8)


def _fetch_as(
    group: str, member_id: str, epoch: int, *topics: OffsetFetchRequestTopics
) -> OffsetFetchRequest:
    asked = OffsetFetchRequestGroup(
        group_id=group, member_id=member_id, member_epoch=epoch, topics=topics
    )
    return OffsetFetchRequest(groups=(asked,))


def deleted_offsets(lab: Lab) -> None:
    group = await_coordinator(lab, lab.named())
    topic = lab.topic()
    lab.show("commit", _commit(group, (topic, None)), 9)

    def delete(label: str, group_id: str, name: str) -> None:
        place = OffsetDeleteRequestTopic(
            name=name,
            partitions=(
                OffsetDeleteRequestPartition(partition_index=0),
                OffsetDeleteRequestPartition(partition_index=5),
            ),
        )
        request = OffsetDeleteRequest(group_id=group_id, topics=(place,))
        lab.show(label, request, unordered=True)

    delete("of an unknown topic", group, "nowhere")
    delete("of an unknown group", lab.named("unknown"), topic)
    delete("of no group", "", topic)
    delete("what is there", group, topic)
    by_name = OffsetFetchRequestTopics(name=topic, partition_indexes=(0,))
    lab.show("what is left", _fetch(group, by_name), 9)
    lab.show("delete the group", DeleteGroupsRequest(groups_names=(group,)))


def subscription_by_names_and_pattern(lab: Lab) -> None:
    """Topics that a member of the new protocol gets first, and finally."""
    names = {lab.topic_id(topic): topic for topic in (lab.topic("named"), lab.topic("found"))}
    beat = ConsumerGroupHeartbeatRequest(
        group_id=await_coordinator(lab, lab.named()),
        member_id="a",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=(lab.named("named"),),
        subscribed_topic_regex=re.escape(lab.named("f")) + ".*",
        topic_partitions=(),
    )
    first = lab.get(beat, ConsumerGroupHeartbeatResponse)
    assert first.assignment is not None
    lab.note("at first", sorted(names[each.topic_id] for each in first.assignment.topic_partitions))
    owned, epoch = first.assignment.topic_partitions, first.member_epoch
    while len(owned) < len(names):
        later = ConsumerGroupHeartbeatRequest(
            group_id=beat.group_id, member_id="a", member_epoch=epoch, topic_partitions=owned
        )
        answer = lab.get(later, ConsumerGroupHeartbeatResponse)
        assert answer.error_code is ErrorCode.NONE, answer
        epoch = answer.member_epoch
        owned = owned if answer.assignment is None else answer.assignment.topic_partitions
    lab.note("in the end", sorted(names[each.topic_id] for each in owned))
    lab.show(
        "leave",
        ConsumerGroupHeartbeatRequest(group_id=beat.group_id, member_id="a", member_epoch=-1),
    )


def refused_heartbeats(lab: Lab) -> None:
    """Rejected ConsumerGroupHeartbeats leave no group behind."""
    group = await_coordinator(lab, lab.named())
    good = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="a",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=(lab.topic(),),
        topic_partitions=(),
    )
    for label, request in (
        ("no member id", replace(good, member_id="")),
        ("an epoch below all", replace(good, member_epoch=-3)),
        ("an empty instance", replace(good, instance_id="")),
        ("an empty rack", replace(good, rack_id="")),
        ("no rebalance timeout", replace(good, rebalance_timeout_ms=-1)),
        ("partitions at once", replace(good, topic_partitions=None)),
        ("no subscription", replace(good, subscribed_topic_names=None)),
        ("an unknown assignor", replace(good, server_assignor="astrology")),
        ("an empty assignor", replace(good, server_assignor="")),
        ("an unknown member", replace(good, member_epoch=5)),
        ("an unknown member leaves", replace(good, member_epoch=-1)),
        ("an unknown static member leaves", replace(good, member_epoch=-2, instance_id="till")),
        ("an unknown dynamic member leaves", replace(good, member_epoch=-2)),
        ("no expression", replace(good, subscribed_topic_regex="a(")),
        ("a look ahead", replace(good, subscribed_topic_regex="(?=a)")),
        ("a thousand and one", replace(good, subscribed_topic_regex="a{1001}")),
        ("no group", replace(good, group_id="")),
    ):
        lab.show(label, request)
    joined = lab.get(good, ConsumerGroupHeartbeatResponse)
    lab.note("joined", [joined.error_code.name, joined.member_epoch, joined.heartbeat_interval_ms])
    later = ConsumerGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=9)
    lab.show("again", good)
    lab.show("a later epoch", later)
    lab.show("describe", ConsumerGroupDescribeRequest(group_ids=(group,)))
    allowed = ConsumerGroupDescribeRequest(group_ids=(group,), include_authorized_operations=True)
    lab.show("what may be done to it", allowed)
    lab.show("describe as a classic one", DescribeGroupsRequest(groups=(group,)))
    lab.show("delete", DeleteGroupsRequest(groups_names=(group,)))
    lab.show("leave", replace(later, member_epoch=-1))
    lab.show("delete when empty", DeleteGroupsRequest(groups_names=(group,)))

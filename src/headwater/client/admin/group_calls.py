"""Groups of both protocols, their committed offsets, and ListOffsets."""

from collections.abc import Iterable, Mapping

from headwater.client.admin.admin_calls import (
    GROUP,
    AdminSettings,
    Calls,
    by_topic,
    checked,
    only,
    outcome,
    results_of,
)
from headwater.client.admin.descriptions import (
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from headwater.client.argument_checks import (
    several,
    topic_partition,
    topic_partitions,
    whole_number,
)
from headwater.client.consumer.offset_requests import OffsetAndTimestamp, OffsetRequests
from headwater.client.errors import (
    GroupIdNotFound,
    UnsupportedVersion,
    error_for,
)
from headwater.client.group_metadata import OffsetAndMetadata, offsets_to_commit
from headwater.client.network.cluster_client import ClusterClient
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.common.ids import TopicPartition
from headwater.protocol.consumer_protocol import PROTOCOL_TYPE, partitions_of, read_assignment
from headwater.protocol.messages import consumer_group_describe, describe_groups
from headwater.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headwater.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

_DEAD = "Dead"


class GroupCalls(Calls):
    """The group and offset methods of the admin client."""

    def __init__(self, cluster: ClusterClient, settings: AdminSettings) -> None:
        super().__init__(cluster, settings)
        self._offsets = OffsetRequests(cluster)

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """The groups of all brokers, in order of their ids."""
        request = ListGroupsRequest(
            states_filter=tuple(several(states, "states")),
            types_filter=tuple(several(types, "types")),
        )
        answers = await self._call_all(
            request,
            ListGroupsResponse,
            self._deadline_ms(timeout),
            lambda answer: answer.error_code,
        )
        found = {
            each.group_id: GroupListing(
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                state=each.group_state,
                type=each.group_type,
            )
            for answer in answers
            for each in answer.groups
        }
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Groups with their members, of the classic and the consumer protocol."""
        deadline_ms = self._deadline_ms(timeout)
        return await self._for_each(
            several(group_ids, "group_ids"),
            lambda group_id: self._describe_group(group_id, deadline_ms),
        )

    async def _describe_group(self, group_id: str, deadline_ms: int) -> GroupDescription:
        """Try ConsumerGroupDescribe, then DescribeGroups (classic groups, old brokers)."""
        try:
            answer = await self._call_coordinator(
                GROUP,
                group_id,
                consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=(group_id,)),
                consumer_group_describe.ConsumerGroupDescribeResponse,
                deadline_ms,
                lambda answer: only(answer.groups).error_code,
            )
            group = only(answer.groups)
            checked(group.error_code, group.error_message, group_id)
            return _consumer_group(group)
        except (GroupIdNotFound, UnsupportedVersion):
            classic = await self._call_coordinator(
                GROUP,
                group_id,
                describe_groups.DescribeGroupsRequest(groups=(group_id,)),
                describe_groups.DescribeGroupsResponse,
                deadline_ms,
                lambda answer: only(answer.groups).error_code,
            )
            found = only(classic.groups)
            checked(found.error_code, found.error_message, group_id)
            if found.group_state == _DEAD:
                # DescribeGroups up to version 5 reports an unknown group as Dead (GR-16).
                text = f"{group_id} does not exist"
                raise error_for(ErrorCode.GROUP_ID_NOT_FOUND, text) from None
            return _classic_group(found)

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Delete empty groups."""
        deadline_ms = self._deadline_ms(timeout)

        async def delete(group_id: str) -> None:
            answer = await self._call_coordinator(
                GROUP,
                group_id,
                DeleteGroupsRequest(groups_names=(group_id,)),
                DeleteGroupsResponse,
                deadline_ms,
                lambda answer: only(answer.results).error_code,
            )
            checked(only(answer.results).error_code, None, group_id)

        await self._for_each(several(group_ids, "group_ids"), delete)

    async def remove_members(
        self, group_id: str, instance_ids: Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Remove static members from a classic group."""
        instances = several(instance_ids, "instance_ids")
        members = tuple(
            MemberIdentity(group_instance_id=each, reason="removed by an admin client")
            for each in instances
        )
        answer = await self._call_coordinator(
            GROUP,
            group_id,
            LeaveGroupRequest(group_id=group_id, members=members),
            LeaveGroupResponse,
            self._deadline_ms(timeout),
            lambda answer: answer.error_code,
        )
        checked(answer.error_code, None, group_id)
        results_of(
            {
                each.group_instance_id: outcome(each.error_code, None, each.group_instance_id, None)
                for each in answer.members
            },
            requested=instances,
        )

    # Offsets.

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of a group; partitions without one are left out."""
        return await self._offsets.committed(
            group_id,
            None if partitions is None else topic_partitions(partitions),
            deadline_ms=self._deadline_ms(timeout),
            require_stable=require_stable,
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets for an empty group."""
        chosen = offsets_to_commit(offsets)
        await self._offsets.commit(group_id, chosen, deadline_ms=self._deadline_ms(timeout))

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete committed offsets of topics that the group is not subscribed to."""
        wanted = topic_partitions(partitions)
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=tuple(
                        OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                    ),
                )
                for topic, numbers in by_topic(wanted).items()
            ),
        )
        answer = await self._call_coordinator(
            GROUP,
            group_id,
            request,
            OffsetDeleteResponse,
            self._deadline_ms(timeout),
            lambda answer: answer.error_code,
        )
        checked(answer.error_code, None, group_id)
        codes = {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        results_of(
            {each: outcome(code, None, each, None) for each, code in codes.items()},
            requested=wanted,
        )

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by timestamp; -1 latest, -2 earliest, -3 the highest timestamp."""
        targets = {
            topic_partition(each): whole_number(when, f"the timestamp of {each} (-1 for the end)")
            for each, when in timestamps.items()
        }
        return await self._offsets.listed(targets, deadline_ms=self._deadline_ms(timeout))


def _consumer_group(group: consumer_group_describe.DescribedGroup) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type="consumer",
        state=group.group_state,
        protocol_type=PROTOCOL_TYPE,
        assignor=group.assignor_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(
            MemberDescription(
                member_id=each.member_id,
                client_id=each.client_id,
                client_host=each.client_host,
                group_instance_id=each.instance_id,
                member_epoch=each.member_epoch,
                assignment=_named(each.assignment),
                target_assignment=_named(each.target_assignment),
            )
            for each in group.members
        ),
    )


def _named(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(each.topic_name, number)
        for each in assignment.topic_partitions
        for number in each.partitions
    )


def _classic_group(group: describe_groups.DescribedGroup) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        members=tuple(
            MemberDescription(
                member_id=each.member_id,
                client_id=each.client_id,
                client_host=each.client_host,
                group_instance_id=each.group_instance_id,
                assignment=_assigned(group.protocol_type, each.member_assignment),
            )
            for each in group.members
        ),
    )


def _assigned(protocol_type: str, assignment: bytes) -> tuple[TopicPartition, ...]:
    """Decode the assignment; groups that are not consumer groups have other formats."""
    if protocol_type != PROTOCOL_TYPE:
        return ()
    try:
        return tuple(partitions_of(read_assignment(assignment).assigned_partitions))
    except ProtocolError:
        return ()

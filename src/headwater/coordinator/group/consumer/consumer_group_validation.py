"""Validate ConsumerGroupHeartbeat requests and their members.

The order of the checks is Kafka's (4.1), since a request can be invalid in several ways.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.assignors.assignor_spec import Partitions
from headwater.coordinator.group.consumer.consumer_group_member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOT_SET,
    STATIC_LEAVING_EPOCH,
    ConsumerGroupMember,
)
from headwater.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

OFFSET_COMMIT_WITH_EPOCHS: Final = 9
"""First version of OffsetCommit that consumer-protocol members may use."""

_CLIENT_MEMBER_ID_SINCE: Final = 1
"""First version in which the client generates the member id (KIP-1082)."""


@dataclass(frozen=True, slots=True)
class HeartbeatError:
    """Error code and message."""

    error_code: ErrorCode
    message: str


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]
) -> HeartbeatError | None:
    """Return what is wrong with the request itself (NG-1)."""
    reason = _check_fields(request, version)
    if reason is not None:
        return HeartbeatError(ErrorCode.INVALID_REQUEST, reason)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        return HeartbeatError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"unknown assignor {request.server_assignor!r}, expected one of {', '.join(assignors)}",
        )
    return None


def _check_fields(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    if not request.group_id.strip():
        return "the group id must not be empty"
    if request.instance_id is not None and not request.instance_id.strip():
        return "the instance id must not be empty"
    if request.rack_id is not None and not request.rack_id.strip():
        return "the rack id must not be empty"
    epoch = request.member_epoch
    if not request.member_id.strip() and (
        version >= _CLIENT_MEMBER_ID_SINCE or epoch != JOINING_EPOCH
    ):
        return "the member id must not be empty"
    if epoch == JOINING_EPOCH:
        return _check_join(request)
    if epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        return "only a static member can leave temporarily (epoch -2)"
    if epoch < STATIC_LEAVING_EPOCH:
        return f"invalid member epoch {epoch}"
    return None


def _check_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NOT_SET:
        return "a joining member must send its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a joining member must send an empty list of owned partitions"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a joining member must subscribe to topic names or to a regular expression"
    return None


def check_epoch(
    member: ConsumerGroupMember, member_epoch: int, owned: Partitions | None
) -> HeartbeatError | None:
    """Return an error unless the member epoch matches (NG-4).

    The previous epoch is accepted if the member owns only assigned partitions: it may not have
    received the last response.
    """
    if member_epoch == member.member_epoch:
        return None
    if (
        member_epoch < member.member_epoch
        and member_epoch == member.previous_member_epoch
        and owned is not None
        and owned <= member.assigned
    ):
        return None
    return HeartbeatError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member epoch is {member.member_epoch}, not {member_epoch}; the member must give up "
        "its partitions and rejoin",
    )


def check_instance(
    holder: ConsumerGroupMember | None, instance_id: str, member_id: str
) -> HeartbeatError | None:
    """Return an error unless the instance id belongs to this member (NG-7)."""
    if holder is None:
        return HeartbeatError(ErrorCode.UNKNOWN_MEMBER_ID, f"unknown instance id {instance_id!r}")
    if holder.member_id != member_id:
        return HeartbeatError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"instance id {instance_id!r} belongs to member {holder.member_id!r}, "
            f"not {member_id!r}",
        )
    return None


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat contains all fields, as when joining (NG-5)."""
    return request.member_epoch == JOINING_EPOCH or (
        request.rebalance_timeout_ms != NOT_SET
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def check_commit(
    members: Mapping[str, ConsumerGroupMember], member_id: str, member_epoch: int, *, is_old: bool
) -> ErrorCode | None:
    """Return an error unless a member commits in its epoch or there are no members."""
    if member_epoch < 0 and not members:
        return None
    member = members.get(member_id)
    if member is not None and member.classic is None and is_old:
        return ErrorCode.UNSUPPORTED_VERSION
    return check_offsets(member, member_epoch)


def check_offsets(member: ConsumerGroupMember | None, member_epoch: int) -> ErrorCode | None:
    """NG-8: a member with another epoch may be reading partitions of another member."""
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch == member.member_epoch:
        return None
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH

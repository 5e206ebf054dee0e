"""Why a ConsumerGroupHeartbeat is refused before the group is looked at, or for who sends it.

The order of the checks is Kafka's (4.1), since a request can be wrong in several ways.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.assignors.assignor_spec import Partitions
from headwater.coordinator.group.consumer.consumer_group_member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOT_SAID,
    STATIC_LEAVING_EPOCH,
    ConsumerGroupMember,
)
from headwater.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

OFFSET_COMMIT_WITH_EPOCHS: Final = 9
"""The first version of OffsetCommit that members of the new protocol may use."""

_CLIENT_MAKES_MEMBER_ID: Final = 1
"""The first version in which a member comes with an id of its own (KIP-1082)."""


@dataclass(frozen=True, slots=True)
class HeartbeatError:
    """No, and why."""

    error_code: ErrorCode
    message: str


def refuse_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]
) -> HeartbeatError | None:
    """What is wrong with the request as such (NG-1)."""
    why = _misformed(request, version)
    if why is not None:
        return HeartbeatError(ErrorCode.INVALID_REQUEST, why)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        return HeartbeatError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"no assignor is called {request.server_assignor!r}, only: {', '.join(assignors)}",
        )
    return None


def _misformed(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    if not request.group_id.strip():
        return "the group id is empty"
    if request.instance_id is not None and not request.instance_id.strip():
        return "the instance id is empty"
    if request.rack_id is not None and not request.rack_id.strip():
        return "the rack id is empty"
    epoch = request.member_epoch
    if not request.member_id.strip() and (
        version >= _CLIENT_MAKES_MEMBER_ID or epoch != JOINING_EPOCH
    ):
        return "the member id is empty"
    if epoch == JOINING_EPOCH:
        return _misformed_join(request)
    if epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        return "only a static member can leave for a moment"
    if epoch < STATIC_LEAVING_EPOCH:
        return f"{epoch} is not a member epoch"
    return None


def _misformed_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NOT_SAID:
        return "whoever joins must give its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "whoever joins must own no partitions, and say so"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "whoever joins must subscribe, to names or to a regular expression"
    return None


def refuse_epoch(
    member: ConsumerGroupMember, member_epoch: int, owned: Partitions | None
) -> HeartbeatError | None:
    """Whether a member is where we think it is (NG-4).

    One step behind is forgiven if it owns nothing that is not its own: it has not got our reply.
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
        f"the member is in epoch {member.member_epoch}, not {member_epoch}; it must give up its "
        "partitions and join again",
    )


def refuse_instance(
    holder: ConsumerGroupMember | None, instance_id: str, member_id: str
) -> HeartbeatError | None:
    """Whether an instance id is this member's (NG-7)."""
    if holder is None:
        return HeartbeatError(ErrorCode.UNKNOWN_MEMBER_ID, f"no instance is called {instance_id!r}")
    if holder.member_id != member_id:
        return HeartbeatError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"instance {instance_id!r} is member {holder.member_id!r} now, not {member_id!r}",
        )
    return None


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a member says all there is to say: on joining, and when in doubt (NG-5)."""
    return request.member_epoch == JOINING_EPOCH or (
        request.rebalance_timeout_ms != NOT_SAID
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def refuse_commit(
    members: Mapping[str, ConsumerGroupMember], member_id: str, member_epoch: int, *, is_old: bool
) -> ErrorCode | None:
    """Whether someone may commit offsets: a member in its epoch, or anybody if there is none."""
    if member_epoch < 0 and not members:
        return None
    member = members.get(member_id)
    if member is not None and member.classic is None and is_old:
        return ErrorCode.UNSUPPORTED_VERSION
    return refuse_offsets(member, member_epoch)


def refuse_offsets(member: ConsumerGroupMember | None, member_epoch: int) -> ErrorCode | None:
    """NG-8: a member that is not in its epoch may be reading what is another's by now."""
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch == member.member_epoch:
        return None
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH

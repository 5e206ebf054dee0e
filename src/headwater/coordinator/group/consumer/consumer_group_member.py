"""One consumer group member: its subscription, epoch and assignment.

A member's epoch is its own, not the group's. It stays behind while the member has partitions to
revoke, and catches up with the target's epoch in one step.

Note: `assigned` is what the member may read, `pending_revocation` what it was told to revoke and
may still be reading. No other member may get either.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from headwater.coordinator.assignors.assignor_spec import NO_PARTITIONS, Partitions
from headwater.coordinator.records.consumer_group_records import ClassicMemberMetadata
from headwater.coordinator.runtime.coordinator_effects import RequestEvent
from headwater.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""Epoch of a static member that left temporarily: its partitions wait for it."""

NOT_SET: Final = -1


class MemberState(IntEnum):
    """Reconciliation state of a member. The numbers are on disk."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> "MemberState":
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """A member as in the records."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = NOT_SET
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None

    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = LEAVING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    pending_revocation: Partitions = NO_PARTITIONS

    @property
    def held(self) -> Partitions:
        """Partitions that no other member may get."""
        return self.assigned | self.pending_revocation

    @property
    def has_left_temporarily(self) -> bool:
        return self.member_epoch == STATIC_LEAVING_EPOCH

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def updated_by(
        self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest
    ) -> "ConsumerGroupMember":
        """Return the member after a heartbeat. Missing fields stay as they were (NG-5)."""
        if self._is_unchanged_by(event, request):
            return self
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return replace(
            self,
            instance_id=_either(request.instance_id, self.instance_id),
            rack_id=_either(request.rack_id, self.rack_id),
            client_id=event.client_id,
            client_host=event.client_host,
            subscribed_topic_names=(
                self.subscribed_topic_names if names is None else tuple(sorted(set(names)))
            ),
            subscribed_topic_regex=self.subscribed_topic_regex if regex is None else regex,
            rebalance_timeout_ms=(
                self.rebalance_timeout_ms if timeout_ms == NOT_SET else timeout_ms
            ),
            server_assignor=_either(request.server_assignor, self.server_assignor),
            classic=None,
        )

    def _is_unchanged_by(self, event: RequestEvent, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Most heartbeats change nothing."""
        return (
            request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.rebalance_timeout_ms == NOT_SET
            and request.server_assignor is None
            and request.rack_id is None
            and request.instance_id in (None, self.instance_id)
            and self.classic is None
            and self.client_id == event.client_id
            and self.client_host == event.client_host
        )

    def moved_to(
        self,
        member_epoch: int,
        state: MemberState,
        assigned: Partitions,
        pending_revocation: Partitions = NO_PARTITIONS,
    ) -> "ConsumerGroupMember":
        """Return the next step, with the previous epoch if the response is lost (NG-4)."""
        return replace(
            self,
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )

    def left_temporarily(self) -> "ConsumerGroupMember":
        """Return a static member that left temporarily: it keeps its assigned partitions."""
        return replace(self, member_epoch=STATIC_LEAVING_EPOCH, pending_revocation=NO_PARTITIONS)


def _either(sent: str | None, known: str | None) -> str | None:
    return known if sent is None else sent

"""Interface of a group, whichever protocol its members use.

Offset commits are validated by the group; the shard queries its state and passes on its events.

Note: a group does not know its offsets, and offsets outlive members. So the shard decides whether a
group can be removed.

Note: the key of every timer of a group starts with `GROUP_TIMER` and the group id, so that the
shard can dispatch it.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.coordinator_effects import Effect, StateRecord, TimerFired

GROUP_TIMER: Final = "group"
"""Timer keys of groups are `(GROUP_TIMER, group_id, ...)`."""


class GroupType(Enum):
    """Type in ListGroups (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """Implemented by `ClassicGroup`, `ConsumerGroup` and `SimpleGroup`."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """State in DescribeGroups and ListGroups: "Empty", "Stable" and so on (GR-16)."""

    @property
    def protocol_type(self) -> str:
        """ "consumer" for consumers; "" if the group never had members."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members and none that are about to join."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to the topic, as far as is known.

        A classic group of consumers whose subscriptions cannot be parsed counts as subscribed to
        all topics, one of another protocol type to none.
        """

    def validate_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode | None:
        """Return the error if this member may not commit (GR-11, NG-8, TX-11).

        `version` is that of OffsetCommit or TxnOffsetCommit.
        """

    def validate_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        """Return the error if this member may not fetch the group's offsets (NG-8)."""

    def validate_offset_delete(self) -> ErrorCode | None:
        """Return the error if no offset of the group may be deleted in its current state."""

    def validate_delete(self) -> ErrorCode | None:
        """Return the error if the group may not be deleted (GR-16)."""

    def retention_begins_ms(self, commit_timestamp: int) -> int | None:
        """Return when a commit's retention starts; None if it does not expire now (OE-1)."""

    def offsets_committed(self, member_id: str, now_ms: int) -> list[Effect]:
        """A commit counts as a sign of life of the member (GR-11)."""

    def tombstones(self) -> Sequence[StateRecord]:
        """Return tombstones for all records of the group."""

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        """Handle a timer whose key starts with the group id."""

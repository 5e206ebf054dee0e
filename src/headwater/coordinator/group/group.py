"""What a group is to everything around it, whichever protocol its members speak.

Committed offsets ask a group whether a commit is legal; the shard asks it for its state, and
passes on what is meant for it. A reader would get two things wrong:

- A group knows nothing of its offsets, and offsets outlive members. So whether a group can be
  forgotten is for the shard to say.
- A request, timer or record of a group comes to its own machine. So the key of every timer that a
  group sets begins with `GROUP_TIMER` and the group's id, and the shard needs to know no more.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.coordinator_effects import Effect, StateRecord, TimerFired

GROUP_TIMER: Final = "group"
"""A timer of a group has the key `(GROUP_TIMER, group_id, ...)`."""


class GroupType(Enum):
    """As ListGroups shows it (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """One group; `ClassicGroup` and `ConsumerGroup` are such."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """As DescribeGroups and ListGroups show it: "Empty", "Stable" and so on (GR-16)."""

    @property
    def protocol_type(self) -> str:
        """What its members speak, "consumer" for consumers; "" if it never had any members."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, not even some that are about to join."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as is known.

        A classic group of consumers whose subscriptions cannot be read counts as subscribed to
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
        """Why this member may not commit, if it may not (GR-11, NG-8, TX-11).

        The version is that of OffsetCommit, or of TxnOffsetCommit.
        """

    def validate_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        """Why this member may not read the group's offsets, if it may not (NG-8)."""

    def validate_offset_delete(self) -> ErrorCode | None:
        """Why no offset of this group may be deleted, as long as it is as it is."""

    def validate_delete(self) -> ErrorCode | None:
        """Why the group may not be deleted (GR-16)."""

    def retention_begins_ms(self, commit_timestamp: int) -> int | None:
        """From when on a commit's retention counts; None if it does not expire now (OE-1)."""

    def offsets_committed(self, member_id: str, now_ms: int) -> list[Effect]:
        """A member has committed, and so it is alive (GR-11)."""

    def tombstones(self) -> Sequence[StateRecord]:
        """The records that make the group one that never was."""

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        """A timer whose key begins with the group's id."""

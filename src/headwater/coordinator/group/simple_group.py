"""A group with offsets but without members (manual partition assignment).

It is not stored. A group that has offsets and no members is such a group, so it exists from its
first commit to its last offset. Kafka treats it as an empty classic group.
"""

# Most answers are the same for all simple groups.
#
# ruff: noqa: ARG002

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.group import GroupType
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
)
from headwater.coordinator.runtime.coordinator_effects import Effect, StateRecord, TimerFired


@dataclass(frozen=True, slots=True)
class SimpleGroup:
    """Implements `Group`."""

    group_id: str

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return "Empty"

    @property
    def protocol_type(self) -> str:
        return ""

    @property
    def is_empty(self) -> bool:
        return True

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def validate_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode | None:
        """Only commits without a generation are allowed (GR-11)."""
        if generation_or_epoch >= 0:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None

    def validate_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        return None

    def validate_offset_delete(self) -> ErrorCode | None:
        return None

    def validate_delete(self) -> ErrorCode | None:
        return None

    def retention_begins_ms(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def offsets_committed(self, member_id: str, now_ms: int) -> list[Effect]:
        return []

    def tombstones(self) -> Sequence[StateRecord]:
        """Kafka 4.1 writes one too, though there is no record to delete."""
        return (GroupMetadataRecord(GroupMetadataKey(group=self.group_id), None),)

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        return []

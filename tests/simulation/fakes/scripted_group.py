"""A group with scripted answers."""

# ruff: noqa: ARG002

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.group import GROUP_TIMER, GroupType
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Effect,
    SetTimer,
    StateRecord,
    TimerFired,
)


@dataclass(slots=True)
class PuppetGroup:
    """Rejects what the test says; implements `headwater.coordinator.group.group.Group`."""

    group_id: str = "g"
    refusal: ErrorCode | None = None
    subscriptions: tuple[str, ...] = ()
    # -1: retention counts from each commit; None: nothing expires.
    empty_since_ms: int | None = -1
    is_empty: bool = False
    group_type: GroupType = GroupType.CLASSIC
    state_name: str = "Stable"
    protocol_type: str = "consumer"

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def validate_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode | None:
        return self.refusal

    def validate_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        return self.refusal

    def validate_offset_delete(self) -> ErrorCode | None:
        return self.refusal

    def validate_delete(self) -> ErrorCode | None:
        return self.refusal

    def retention_begins_ms(self, commit_timestamp: int) -> int | None:
        return commit_timestamp if self.empty_since_ms == -1 else self.empty_since_ms

    def offsets_committed(self, member_id: str, now_ms: int) -> list[Effect]:
        return [SetTimer((GROUP_TIMER, self.group_id, member_id), now_ms + 1)]

    def tombstones(self) -> Sequence[StateRecord]:
        return (GroupMetadataRecord(GroupMetadataKey(group=self.group_id), None),)

    def on_timer(self, timer: TimerFired) -> list[Effect]:
        return []

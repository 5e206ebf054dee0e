"""What a consumer group answers to everything around it: the part of `Group` that only reads."""

# Some of what a group may be asked is the same for all consumer groups.
# ruff: noqa: ARG002

from collections.abc import Callable, Sequence

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.consumer import consumer_group_record_values as record_values
from headwater.coordinator.group.consumer.consumer_group_draft import preferred_assignor
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.group.consumer.consumer_group_state import ConsumerGroupState
from headwater.coordinator.group.consumer.consumer_group_validation import (
    OFFSET_COMMIT_WITH_EPOCHS,
    refuse_commit,
    refuse_offsets,
)
from headwater.coordinator.group.group import GroupType
from headwater.coordinator.records.consumer_group_records import ConsumerGroupRecord
from headwater.coordinator.runtime.coordinator_effects import Effect
from headwater.metadata.cluster_image import ClusterImage


class ConsumerGroupQueries:
    """A group's durable state and settings, as others may ask for them."""

    def __init__(
        self,
        state: ConsumerGroupState,
        settings: ConsumerGroupSettings,
        image: Callable[[], ClusterImage],
    ) -> None:
        self.state = state
        self.image = image
        self._broker_settings = settings
        self._settings = settings
        self._settled_for: ClusterImage | None = None

    @property
    def settings(self) -> ConsumerGroupSettings:
        """What holds now: the group's own configs may change at any time, and the image with them.

        Asked for with each heartbeat, so they are only looked up in an image that is new.
        """
        image = self.image()
        if image is not self._settled_for:
            own = image.configs_of(ResourceType.GROUP, self.state.group_id)
            self._settings = self._broker_settings.of_group(own)
            self._settled_for = image
        return self._settings

    @property
    def group_id(self) -> str:
        return self.state.group_id

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def state_name(self) -> str:
        return self.state.name.value

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def assignor_name(self) -> str:
        return preferred_assignor(self.state.members.values(), self.settings.assignors)

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    def is_subscribed_to(self, topic: str) -> bool:
        return any(
            topic in member.subscribed_topic_names
            or topic in self.state.topics_of_regex(member.subscribed_topic_regex)
            for member in self.state.members.values()
        )

    def validate_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode | None:
        return refuse_commit(
            self.state.members,
            member_id,
            generation_or_epoch,
            is_old=not is_transactional and version < OFFSET_COMMIT_WITH_EPOCHS,
        )

    def validate_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        if member_id is None and member_epoch < 0:
            return None
        member = self.state.members.get(member_id or "")
        return refuse_offsets(member, member_epoch)

    def validate_offset_delete(self) -> ErrorCode | None:
        return None

    def validate_delete(self) -> ErrorCode | None:
        return None if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def retention_begins_ms(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def offsets_committed(self, member_id: str, now_ms: int) -> list[Effect]:
        """Kafka does this (4.1): only the heartbeat of such a member shows that it lives."""
        return []

    def tombstones(self) -> Sequence[ConsumerGroupRecord]:
        return record_values.group_gone(
            self.state.group_id, list(self.state.members), list(self.state.regexes)
        )

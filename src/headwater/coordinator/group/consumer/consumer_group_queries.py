"""The read-only part of the `Group` interface of consumer groups."""

# Some answers are the same for all consumer groups.
#
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
    check_commit,
    check_offsets,
)
from headwater.coordinator.group.group import GroupType
from headwater.coordinator.records.consumer_group_records import ConsumerGroupRecord
from headwater.coordinator.runtime.coordinator_effects import Effect
from headwater.metadata.cluster_image import ClusterImage


class ConsumerGroupQueries:
    """A group's durable state and settings."""

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
        self._settings_image: ClusterImage | None = None

    @property
    def settings(self) -> ConsumerGroupSettings:
        """The settings in force, including the group's own configs.

        Read with each heartbeat, so cached per image.
        """
        image = self.image()
        if image is not self._settings_image:
            own = image.configs_of(ResourceType.GROUP, self.state.group_id)
            self._settings = self._broker_settings.of_group(own)
            self._settings_image = image
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
        return check_commit(
            self.state.members,
            member_id,
            generation_or_epoch,
            is_old=not is_transactional and version < OFFSET_COMMIT_WITH_EPOCHS,
        )

    def validate_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        if member_id is None and member_epoch < 0:
            return None
        member = self.state.members.get(member_id or "")
        return check_offsets(member, member_epoch)

    def validate_offset_delete(self) -> ErrorCode | None:
        return None

    def validate_delete(self) -> ErrorCode | None:
        return None if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def retention_begins_ms(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def offsets_committed(self, member_id: str, now_ms: int) -> list[Effect]:
        """As in Kafka 4.1, only a heartbeat extends the session of such a member."""
        return []

    def tombstones(self) -> Sequence[ConsumerGroupRecord]:
        return record_values.group_tombstones(
            self.state.group_id, list(self.state.members), list(self.state.regexes)
        )

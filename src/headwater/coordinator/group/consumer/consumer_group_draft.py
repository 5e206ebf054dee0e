"""Draft of a consumer group with changes that are not written yet.

A heartbeat can do much at once: add a member, notice a new topic, reassign everything. Each step
builds on the one before, and none may change the group before it is in the log. So the steps work
on a draft, which overlays the group's state and collects the records.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from headwater.common.exceptions import InvalidPattern
from headwater.coordinator.assignors.assignor_spec import MemberSpec, Partitions
from headwater.coordinator.group.consumer import consumer_group_record_values as record_values
from headwater.coordinator.group.consumer.consumer_group_member import (
    JOINING_EPOCH,
    ConsumerGroupMember,
)
from headwater.coordinator.group.consumer.consumer_group_settings import (
    ASSIGNORS,
    ConsumerGroupSettings,
)
from headwater.coordinator.group.consumer.consumer_group_state import ConsumerGroupState
from headwater.coordinator.group.consumer.current_assignment_builder import (
    TargetAssignment,
    reconcile,
)
from headwater.coordinator.group.consumer.subscribed_topics import (
    TopicLookup,
    hash_of_topics,
    subscribed_names,
)
from headwater.coordinator.records.consumer_group_records import (
    ConsumerGroupRecord,
    ConsumerGroupRegularExpressionValue,
)
from headwater.coordinator.runtime.coordinator_effects import sees_all
from headwater.coordinator.topic_regex.topic_pattern import TopicPattern
from headwater.metadata.cluster_image import ClusterImage


@dataclass(slots=True, kw_only=True)
class GroupDraft:
    """Changes to one group, and their records."""

    state: ConsumerGroupState
    image: ClusterImage
    settings: ConsumerGroupSettings
    now_ms: int
    epoch: int
    # Which topics the client that caused the change is authorized to see.
    sees: Callable[[str], bool] = sees_all
    records: list[ConsumerGroupRecord] = field(default_factory=list)
    _members: dict[str, ConsumerGroupMember | None] = field(default_factory=dict)
    _targets: dict[str, Partitions] = field(default_factory=dict)
    _regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _matched: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def members(self) -> Iterator[ConsumerGroupMember]:
        for member_id, member in self.state.members.items():
            if member_id not in self._members:
                yield member
        for changed in self._members.values():
            if changed is not None:
                yield changed

    def put(self, before: ConsumerGroupMember, member: ConsumerGroupMember) -> None:
        """Set a member's metadata."""
        is_new = member.member_id not in self.state.members
        if member != before or (is_new and member.member_id not in self._members):
            self.records.append(record_values.member_metadata(self.state.group_id, member))
        self._members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        self.records += record_values.member_tombstones(self.state.group_id, member_id)
        self._members[member_id] = None

    def replace_static(self, old: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
        """A static member rejoins under another id and keeps its assignment (NG-7)."""
        group_id = self.state.group_id
        member = replace(
            old,
            member_id=member_id,
            member_epoch=JOINING_EPOCH,
            previous_member_epoch=JOINING_EPOCH,
        )
        target = self.state.target_of(old.member_id)
        self.remove(old.member_id)
        self.records += (
            record_values.member_metadata(group_id, member),
            record_values.target_assignment(group_id, member_id, target),
            record_values.current_assignment(group_id, member),
        )
        self._members[member_id] = member
        self._targets[member_id] = target
        return member

    def follow_topics(self, *, is_resubscribed: bool, are_regexes_stale: bool) -> bool:
        """Start a new epoch if subscriptions or topics changed (NG-2).

        Returns whether there is anything to write.
        """
        records_before = len(self.records)
        self._resolve_regexes(are_regexes_stale)
        names = subscribed_names(self.members(), self._regexes)
        metadata_hash = hash_of_topics(names, self.image)
        is_new_group = self.state.epoch == 0
        if is_new_group or is_resubscribed or metadata_hash != self.state.metadata_hash:
            self.epoch += 1
            if self.state.has_partition_metadata:
                self.records.append(record_values.no_partition_metadata(self.state.group_id))
            self.records.append(
                record_values.group_epoch(self.state.group_id, self.epoch, metadata_hash)
            )
        return len(self.records) > records_before

    def _resolve_regexes(self, are_stale: bool) -> None:
        group_id, known = self.state.group_id, self.state.regexes
        wanted = dict.fromkeys(member.subscribed_topic_regex for member in self.members())
        wanted.pop("", None)
        for regex in sorted(wanted):
            before = known.get(regex)
            if before is not None and not are_stale:
                self._regexes[regex] = before.topics
                continue
            topics = self._matched.get(regex)
            if topics is None:
                topics = self._matching(regex, () if before is None else before.topics)
            self._regexes[regex] = topics
            if before is None or before.topics != topics:
                value = ConsumerGroupRegularExpressionValue(
                    topics=topics, version=self._image_version(), timestamp=self.now_ms
                )
                self.records.append(record_values.resolved_regex(group_id, regex, value))
        for regex in known:
            if regex not in wanted:
                self.records.append(record_values.resolved_regex(group_id, regex, None))

    def match(self, regex: str) -> None:
        """Resolve a new regular expression. Raises `InvalidPattern`."""
        pattern = TopicPattern(regex)
        found = (name for name in self.image.topics if pattern.matches(name))
        self._matched[regex] = tuple(sorted(filter(self.sees, found)))

    def _matching(self, regex: str, known: tuple[str, ...]) -> tuple[str, ...]:
        """Resolve an expression again; keep its topics if that takes too much work now.

        Another coordinator accepted it, or there were fewer topics then; the member has done
        nothing wrong.
        """
        try:
            self.match(regex)
        except InvalidPattern:
            return known
        return self._matched[regex]

    def _image_version(self) -> int:
        version = self.image.version
        return (version.controller_epoch << 32) + version.sequence

    def assign(self) -> None:
        """Compute the target assignment of this epoch (NG-2)."""
        if not self._regexes:
            self._regexes = dict(self.state.topics_by_regex())
        lookup = TopicLookup(self.image, self._regexes)
        specs = {
            member.member_id: MemberSpec(
                topics=lookup.topics_of(member),
                owned=self.target_of(member.member_id),
                instance_id=member.instance_id,
            )
            for member in self.members()
        }
        assignor = ASSIGNORS[preferred_assignor(self.members(), self.settings.assignors)]
        assignment = assignor(specs, lookup.partition_counts)
        group_id = self.state.group_id
        for member_id in sorted(assignment):
            target = assignment[member_id]
            is_known = member_id in self.state.targets or member_id in self._targets
            if not is_known or target != self.target_of(member_id):
                self.records.append(record_values.target_assignment(group_id, member_id, target))
                self._targets[member_id] = target
        self.records.append(record_values.target_epoch(group_id, self.epoch))

    def target_of(self, member_id: str) -> Partitions:
        changed = self._targets.get(member_id)
        return self.state.target_of(member_id) if changed is None else changed

    def reconcile(
        self, member: ConsumerGroupMember, owned: Partitions | None
    ) -> ConsumerGroupMember:
        """Move the member one step closer to its target (NG-3)."""
        target_assignment = TargetAssignment(
            epoch=max(self.epoch, self.state.assignment_epoch),
            target=self.target_of(member.member_id),
            is_free=self.state.is_free,
        )
        step = reconcile(member, owned, target_assignment)
        if step is not member:
            self.records.append(record_values.current_assignment(self.state.group_id, step))
            self._members[member.member_id] = step
        return step


def preferred_assignor(members: Iterable[ConsumerGroupMember], offered: tuple[str, ...]) -> str:
    """Return the assignor that most members request, or the first one offered."""
    votes = Counter(member.server_assignor for member in members)
    return max(offered, key=lambda name: votes[name])

"""The groups of one shard, with members or with offsets only.

A group object is kept from its first write, before that is replayed, since it has soft state that
no record contains.

Note: a group may have one type early in the log and another later. A record of the other type
creates a new group object, and a tombstone only ends a group of its own type. Compaction may have
removed any older record of a group, so a tombstone may be for a group that was never seen.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.common.ports import Random
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.committed_offsets import CommittedOffsets
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.group.consumer.group_downgrade import (
    Downgrade,
    Remainder,
    downgrade,
    may_downgrade,
)
from headwater.coordinator.group.consumer.mixed_consumer_group import MixedConsumerGroup
from headwater.coordinator.group.group import Group
from headwater.coordinator.group.simple_group import SimpleGroup
from headwater.coordinator.records.classic_group_records import GroupMetadataRecord
from headwater.coordinator.records.consumer_group_records import (
    ConsumerGroupMetadataRecord,
    ConsumerGroupRecord,
)
from headwater.metadata.cluster_image import ClusterImage

Machine = ClassicGroup | MixedConsumerGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFactory:
    """What new groups are created with."""

    classic: ClassicLimits
    consumer: ConsumerGroupSettings
    rng: Random
    image: Callable[[], ClusterImage]


class GroupMetadataManager:
    __slots__ = ("_factory", "_machines", "_offsets", "_successors")

    def __init__(self, factory: GroupFactory, offsets: CommittedOffsets) -> None:
        self._factory = factory
        self._offsets = offsets
        self._machines: dict[str, Machine] = {}
        # Classic groups that replace consumer groups when their records are replayed.
        self._successors: dict[str, tuple[GroupMetadataRecord, ClassicGroup]] = {}

    def __iter__(self) -> Iterator[Group]:
        """All groups, sorted by id."""
        for group_id in sorted(dict.fromkeys([*self._machines, *self._offsets.groups()])):
            group = self.find(group_id)
            if group is not None:
                yield group

    def find(self, group_id: str) -> Group | None:
        """Return a group of any kind."""
        machine = self._machines.get(group_id)
        if machine is not None:
            return machine
        return SimpleGroup(group_id) if self._offsets.has_any(group_id) else None

    def machine(self, group_id: str) -> Machine | None:
        """Return a group that has or had members."""
        return self._machines.get(group_id)

    def machines(self) -> list[Machine]:
        return list(self._machines.values())

    def new_classic(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self._factory.classic, self._factory.rng)

    def new_consumer(self, group_id: str) -> MixedConsumerGroup:
        factory = self._factory
        return MixedConsumerGroup(
            group_id,
            settings=factory.consumer,
            rng=factory.rng,
            image=factory.image,
            downgrading=self._downgrade,
        )

    def _downgrade(self, remainder: Remainder, now_ms: int) -> Downgrade | None:
        factory = self._factory
        if not may_downgrade(remainder, factory.consumer, factory.classic):
            return None
        made = self.new_classic(remainder.group_id)
        change = downgrade(remainder, made, factory.image(), now_ms)
        if change is not None:
            self._successors[remainder.group_id] = change.record, made
        return change

    def keep(self, machine: Machine) -> None:
        """Keep a group that is about to write its first record."""
        self._machines[machine.group_id] = machine

    def replay_classic(self, record: GroupMetadataRecord) -> None:
        group_id = record.key.group
        machine = self._machines.get(group_id)
        if record.value is None:
            if isinstance(machine, ClassicGroup):
                machine.replay(record)
                del self._machines[group_id]
            return
        if not isinstance(machine, ClassicGroup):
            machine = self._machines[group_id] = self._successor(record)
        machine.replay(record)

    def _successor(self, record: GroupMetadataRecord) -> ClassicGroup:
        """Return the group that wrote this very record, or a new one."""
        expected, made = self._successors.pop(record.key.group, (None, None))
        if made is None or expected is not record:
            return self.new_classic(record.key.group)
        return made

    def replay_consumer(self, record: ConsumerGroupRecord) -> None:
        group_id = record.key.group_id
        machine = self._machines.get(group_id)
        if not isinstance(machine, MixedConsumerGroup):
            if record.value is None:
                return
            machine = self._machines[group_id] = self.new_consumer(group_id)
        machine.replay(record)
        if isinstance(record, ConsumerGroupMetadataRecord) and record.value is None:
            del self._machines[group_id]

"""Convert a consumer group with only classic-protocol members to a classic group.

This happens when the last consumer-protocol member leaves (NG-10). The epoch becomes the
generation, and the targets become the assignments, as if a leader had sent them. Usually they must
then be reassigned, so a rebalance starts at once. Only when a static member comes back with the
classic protocol, to a stable group, all assignments stay.

Note: the classic group is created here and its rebalance started, but it replaces the consumer
group only when its record is replayed. If the append fails, it is dropped and the consumer group is
unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.common.exceptions import ProtocolError
from headwater.coordinator.assignors.assignor_spec import Partitions
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_group_member import ClassicGroupMember
from headwater.coordinator.group.classic.classic_rebalance import ClassicLimits
from headwater.coordinator.group.consumer.classic_member_protocol import (
    version_of,
    write_assignment,
)
from headwater.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.records.classic_group_records import GroupMetadataRecord
from headwater.coordinator.runtime.coordinator_effects import Effect
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol.messages.join_group import JoinGroupRequestProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """A consumer group without the members that leave."""

    group_id: str
    members: Sequence[ConsumerGroupMember]
    targets: Mapping[str, Partitions]
    epoch: int
    is_complete: bool
    """Whether a member took the place of the one that left, so that none is missing."""

    @property
    def is_stable(self) -> bool:
        """Whether all members have their targets and nothing needs to move."""
        return self.is_complete and all(
            each.is_reconciled_to(self.epoch) and each.assigned == self.targets[each.member_id]
            for each in self.members
        )


@dataclass(frozen=True, slots=True)
class Downgrade:
    """The record that creates the classic group, and further effects."""

    record: GroupMetadataRecord
    effects: Sequence[Effect]


Downgrading = Callable[[Remainder, int], Downgrade | None]
"""Called with a remainder and the time; None if the group must not be converted."""


def may_downgrade(
    remainder: Remainder, settings: ConsumerGroupSettings, limits: ClassicLimits
) -> bool:
    """NG-10. An empty group is converted by the next join, not before."""
    return (
        settings.migration_policy.allows_downgrade
        and 0 < len(remainder.members) <= limits.max_size
        and all(each.classic is not None for each in remainder.members)
    )


def downgrade(
    remainder: Remainder, new_group: ClassicGroup, image: ClusterImage, now_ms: int
) -> Downgrade | None:
    """Fill a new classic group; None if a member's protocol metadata cannot be parsed."""
    try:
        members = [
            _classic_member(each, remainder.targets[each.member_id], image)
            for each in remainder.members
        ]
    except ProtocolError:
        return None
    record = new_group.take_over(members, generation=remainder.epoch, now_ms=now_ms)
    if remainder.is_stable:
        return Downgrade(record, new_group.resume(now_ms, rebalances=False))
    return Downgrade(_without_leader(record), new_group.resume(now_ms, rebalances=True))


def _without_leader(record: GroupMetadataRecord) -> GroupMetadataRecord:
    """Without a leader: a coordinator that loads it must start the rebalance again."""
    assert record.value is not None
    return replace(record, value=replace(record.value, leader=None))


def _classic_member(
    member: ConsumerGroupMember, target: Partitions, image: ClusterImage
) -> ClassicGroupMember:
    assert member.classic is not None, "a consumer-protocol member is left"
    protocols = member.classic.supported_protocols
    return ClassicGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple(
            JoinGroupRequestProtocol(name=each.name, metadata=each.metadata) for each in protocols
        ),
        assignment=write_assignment(target, version_of(protocols[0].metadata), image),
    )

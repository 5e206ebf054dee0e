"""A consumer group whose members all speak the classic protocol becomes a classic group again.

This happens when the last member of the other protocol goes (NG-10). Everybody keeps what it was
to have: the epoch becomes the generation, and the targets become the assignments that a leader
might have made. As a rule they must then be shared out anew, so a rebalance begins at once. Only
when a static member comes back with the old protocol, to a group that is settled, all can stay.

What a reader would get wrong: the classic group is made here and its rebalance begun, but it takes
the place of the other one only when its record is replayed. If that cannot be written, it is
forgotten, and the consumer group has lost nothing.
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
    """What a consumer group would be without those that leave it."""

    group_id: str
    members: Sequence[ConsumerGroupMember]
    targets: Mapping[str, Partitions]
    epoch: int
    is_complete: bool
    """Whether nobody is missing, since another has come in the place of who left."""

    @property
    def is_settled(self) -> bool:
        """Whether all have what they shall, and all there is, so that nothing needs to move."""
        return self.is_complete and all(
            each.is_reconciled_to(self.epoch) and each.assigned == self.targets[each.member_id]
            for each in self.members
        )


@dataclass(frozen=True, slots=True)
class Downgrade:
    """The record that makes a classic group, and what else there is to be done."""

    record: GroupMetadataRecord
    effects: Sequence[Effect]


Downgrading = Callable[[Remainder, int], Downgrade | None]
"""Of a remainder, at a time; None, where the group must stay what it is."""


def may_downgrade(
    remainder: Remainder, settings: ConsumerGroupSettings, limits: ClassicLimits
) -> bool:
    """NG-10. An empty group changes its type with the next join, and not before."""
    return (
        settings.migration_policy.allows_downgrade
        and 0 < len(remainder.members) <= limits.max_size
        and all(each.classic is not None for each in remainder.members)
    )


def downgrade(
    remainder: Remainder, made: ClassicGroup, image: ClusterImage, now_ms: int
) -> Downgrade | None:
    """Fill a new classic group; None if what a member said cannot be understood."""
    try:
        members = [
            _classic_member(each, remainder.targets[each.member_id], image)
            for each in remainder.members
        ]
    except ProtocolError:
        return None
    record = made.take_over(members, generation=remainder.epoch, now_ms=now_ms)
    if remainder.is_settled:
        return Downgrade(record, made.resume(now_ms, rebalances=False))
    return Downgrade(_unled(record), made.resume(now_ms, rebalances=True))


def _unled(record: GroupMetadataRecord) -> GroupMetadataRecord:
    """Without a leader: whoever loads it before the rebalance has ended shall begin it again."""
    assert record.value is not None
    return replace(record, value=replace(record.value, leader=None))


def _classic_member(
    member: ConsumerGroupMember, target: Partitions, image: ClusterImage
) -> ClassicGroupMember:
    assert member.classic is not None, "a member of the other protocol is left"
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

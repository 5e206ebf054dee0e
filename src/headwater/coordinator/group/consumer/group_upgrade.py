"""A live classic group of consumers becomes a consumer group, because one of the new kind came.

Everybody keeps what it has: the generation becomes the epoch, the assignments that the leader made
become target and current assignment at once, and from there the coordinator goes on. All of it,
the end of the classic group and the newcomer's join are one batch, so there is never half of it.

What a reader would get wrong: the group that is decided on here is a sketch, thrown away at the
end. The real one is made by replaying the batch, so if that cannot be written nothing has happened.
"""

from collections.abc import Sequence

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.coordinator.assignors.assignor_spec import NO_PARTITIONS, Partitions
from headwater.coordinator.group.classic import classic_responses as answers
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_group_member import ClassicGroupMember
from headwater.coordinator.group.classic.classic_subscribed_topics import CONSUMER_PROTOCOL_TYPE
from headwater.coordinator.group.consumer import consumer_group_record_values as record_values
from headwater.coordinator.group.consumer.classic_member_protocol import (
    ids_of,
    read_assignment,
    read_subscription,
)
from headwater.coordinator.group.consumer.consumer_group import ConsumerGroup
from headwater.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.records.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupRecord,
)
from headwater.coordinator.runtime.coordinator_effects import Append, Asked, Effect
from headwater.metadata.cluster_image import ClusterImage


def may_upgrade(group: ClassicGroup, settings: ConsumerGroupSettings) -> bool:
    """NG-10."""
    return (
        settings.migration_policy.allows_upgrade
        and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and len(group.members) <= settings.max_size
    )


def upgrade(
    group: ClassicGroup, sketch: ConsumerGroup, asked: Asked, image: ClusterImage
) -> list[Effect] | None:
    """What it takes to let a new kind of member in; None if a member cannot be understood.

    `sketch` is a fresh group of the same id. It is not to be kept.
    """
    try:
        members = _members(group, image)
    except ProtocolError:
        return None
    records = _records(group, members)
    for record in records:
        sketch.replay(record)
    effects = sketch.decide(asked)
    first = next((each for each in effects if isinstance(each, Append)), None)
    if first is None:
        # Refused for some reason of its own, which is none to upgrade.
        return effects
    whole = Append((*group.tombstones(), *records, *first.records))
    timers = [each for member in members for each in sketch.time_session(member, asked.now_ms)]
    rest = [each for each in effects if each is not first]
    return [whole, *timers, *_rejoin(group.members), *rest]


def _members(group: ClassicGroup, image: ClusterImage) -> list[ConsumerGroupMember]:
    members = []
    taken: Partitions = NO_PARTITIONS
    epoch = max(1, group.generation)
    for each in group.members:
        subscription = read_subscription(each.protocols[0].metadata)
        assigned = ids_of(read_assignment(each.assignment).assigned_partitions, image)
        members.append(
            ConsumerGroupMember(
                member_id=each.member_id,
                instance_id=each.group_instance_id,
                rack_id=subscription.rack_id,
                client_id=each.client_id,
                client_host=each.client_host,
                subscribed_topic_names=tuple(sorted(set(subscription.topics))),
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                classic=ClassicMemberMetadata(
                    session_timeout_ms=each.session_timeout_ms,
                    supported_protocols=tuple(
                        ClassicProtocol(name=offered.name, metadata=offered.metadata)
                        for offered in each.protocols
                    ),
                ),
                member_epoch=epoch,
                previous_member_epoch=epoch,
                # A leader may have given a partition to two, but a consumer group may not.
                assigned=assigned - taken,
            )
        )
        taken |= assigned
    return members


def _records(
    group: ClassicGroup, members: Sequence[ConsumerGroupMember]
) -> list[ConsumerGroupRecord]:
    group_id, epoch = group.group_id, max(1, group.generation)
    return [
        *(record_values.member_metadata(group_id, each) for each in members),
        record_values.group_epoch(group_id, epoch, 0),
        *(
            record_values.target_assignment(group_id, each.member_id, each.assigned)
            for each in members
        ),
        record_values.target_epoch(group_id, epoch),
        *(record_values.current_assignment(group_id, each) for each in members),
    ]


def _rejoin(members: Sequence[ClassicGroupMember]) -> list[Effect]:
    """Whoever waits for a rebalance of the old kind is told to begin again."""
    error = ErrorCode.REBALANCE_IN_PROGRESS
    effects: list[Effect] = []
    for member in members:
        if member.joining is not None:
            effects.append(answers.join_error(member.joining, error, member_id=member.member_id))
        if member.syncing is not None:
            effects.append(answers.sync_error(member.syncing, error))
    return effects

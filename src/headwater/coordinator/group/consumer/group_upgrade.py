"""Convert a classic group when a consumer-protocol member joins (NG-10).

The generation becomes the epoch, and the leader's assignments become both target and current
assignment. The conversion, the tombstone of the classic group and the join of the new member are
one batch, so it is never half done.

Note: the group that decides here is temporary. The real one is created by replaying the batch, so
if the append fails, nothing has changed.
"""

from collections.abc import Sequence

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.coordinator.assignors.assignor_spec import NO_PARTITIONS, Partitions
from headwater.coordinator.group.classic import classic_responses as responses
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
from headwater.coordinator.runtime.coordinator_effects import Append, Effect, RequestEvent
from headwater.metadata.cluster_image import ClusterImage


def may_upgrade(group: ClassicGroup, settings: ConsumerGroupSettings) -> bool:
    """See NG-10."""
    return (
        settings.migration_policy.allows_upgrade
        and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and len(group.members) <= settings.max_size
    )


def upgrade(
    group: ClassicGroup, sketch: ConsumerGroup, event: RequestEvent, image: ClusterImage
) -> list[Effect] | None:
    """Return the effects of the conversion; None if metadata cannot be parsed.

    `sketch` is a new group of the same id, which must not be kept.
    """
    try:
        members = _members(group, image)
    except ProtocolError:
        return None
    records = _records(group, members)
    for record in records:
        sketch.replay(record)
    effects = sketch.decide(event)
    first = next((each for each in effects if isinstance(each, Append)), None)
    if first is None:
        # The join was rejected for another reason, so there is no conversion.
        return effects
    whole = Append((*group.tombstones(), *records, *first.records))
    timers = [each for member in members for each in sketch.time_session(member, event.now_ms)]
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
                # A leader may have assigned a partition twice, a consumer group must not.
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
    """Tell members that wait for a classic rebalance to rejoin."""
    error = ErrorCode.REBALANCE_IN_PROGRESS
    effects: list[Effect] = []
    for member in members:
        if member.joining is not None:
            effects.append(responses.join_error(member.joining, error, member_id=member.member_id))
        if member.syncing is not None:
            effects.append(responses.sync_error(member.syncing, error))
    return effects

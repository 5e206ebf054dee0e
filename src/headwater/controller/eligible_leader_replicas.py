"""Keep the eligible leader replicas of partitions (KIP-966).

While the ISR is smaller than `min.insync.replicas`, the high watermark does not advance. So a
member that leaves the ISR then still has every committed record: it becomes an eligible leader
replica (ELR) and may lead if the ISR is empty. It leaves the ELR when the ISR is large enough
again, or when its broker restarts without proof of a clean shutdown.

With ELRs the ISR may be empty. The last leader is remembered as the last known ELR; it leads again
if no member of ISR and ELR is left, since then all that had every committed record have lost some.

Note: controller and leaders must agree on `min.insync.replicas`. So ELRs are in force only while
the cluster-wide default is in the log (`required_configs`), where no broker can override it.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId
from headwater.metadata.changes import ConfigsReplaced, MetadataChange, PartitionChanged
from headwater.metadata.cluster_image import (
    ALL_BROKERS,
    NO_LEADER,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
)
from headwater.metadata.effective_configs import StaticConfig, topic_defaults_for
from headwater.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, level_of

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
DEFAULTS: Final = ConfigResource(ResourceType.BROKER, ALL_BROKERS)


def is_elr_enabled(image: ClusterImage) -> bool:
    """Return whether ELRs are in force."""
    has_level = level_of(image, ELIGIBLE_LEADER_REPLICAS_VERSION) > 0
    return has_level and MIN_INSYNC_REPLICAS in image.configs_of(*DEFAULTS)


def min_isr_of(image: ClusterImage, topic: str, replicas: Collection[NodeId]) -> int:
    """Return `min.insync.replicas` of a topic, at most the number of replicas."""
    own = image.configs_of(ResourceType.TOPIC, topic).get(MIN_INSYNC_REPLICAS)
    text = own or image.configs_of(*DEFAULTS)[MIN_INSYNC_REPLICAS]
    return min(int(text), len(replicas))


def with_elr(
    image: ClusterImage,
    topic: str,
    before: PartitionRegistration,
    after: PartitionRegistration,
    unclean: Collection[NodeId] = (),
) -> PartitionRegistration:
    """Return a changed partition with the ELR that follows from its ISR.

    `unclean` are brokers that restarted without proof of a clean shutdown. If only the ELR changes,
    the partition epoch grows by one.
    """
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    if is_elr_enabled(image):
        elr = _elr(image, topic, before, after, unclean)
        last_known_elr = _last_known_elr(before, after)
    if (elr, last_known_elr) == (after.elr, after.last_known_elr):
        return after
    epoch = after.partition_epoch + (after is before)
    return replace(after, elr=elr, last_known_elr=last_known_elr, partition_epoch=epoch)


def _elr(
    image: ClusterImage,
    topic: str,
    before: PartitionRegistration,
    after: PartitionRegistration,
    unclean: Collection[NodeId],
) -> tuple[NodeId, ...]:
    if len(after.isr) >= min_isr_of(image, topic, after.replicas):
        return ()
    holders = {*before.isr, *before.elr}
    if after.isr and holders.isdisjoint(after.isr):
        # An unclean election: what the others have in addition is not committed any more.
        return ()
    return tuple(
        each
        for each in after.replicas
        if each in holders and each not in after.isr and each not in unclean
    )


def _last_known_elr(
    before: PartitionRegistration, after: PartitionRegistration
) -> tuple[NodeId, ...]:
    if after.isr:
        return () if after.leader != NO_LEADER else before.last_known_elr
    if not before.isr:
        return before.last_known_elr
    return before.isr[:1] if before.leader == NO_LEADER else (before.leader,)


def required_configs(image: ClusterImage, static: StaticConfig) -> list[MetadataChange]:
    """Changes of configs that put ELRs in force at a feature level above 0.

    As in Kafka, the cluster-wide default of `min.insync.replicas` is that of the active controller,
    and no broker has another one.
    """
    if level_of(image, ELIGIBLE_LEADER_REPLICAS_VERSION) == 0 or is_elr_enabled(image):
        return []
    min_isr = topic_defaults_for(image, static).min_insync_replicas
    values = {**image.configs_of(*DEFAULTS), MIN_INSYNC_REPLICAS: str(min_isr)}
    changes: list[MetadataChange] = [ConfigsReplaced(DEFAULTS, values)]
    for resource, configs in image.configs.items():
        is_of_broker = resource.resource_type is ResourceType.BROKER and resource != DEFAULTS
        if is_of_broker and MIN_INSYNC_REPLICAS in configs:
            left = {key: text for key, text in configs.items() if key != MIN_INSYNC_REPLICAS}
            changes.append(ConfigsReplaced(resource, left))
    return changes


def refusal_of_config(
    image: ClusterImage, resource: ConfigResource, old: Collection[str], new: Collection[str]
) -> str | None:
    """Return why new configs of brokers are refused while ELRs are in force."""
    if resource.resource_type is not ResourceType.BROKER or not is_elr_enabled(image):
        return None
    if resource == DEFAULTS:
        if MIN_INSYNC_REPLICAS in old and MIN_INSYNC_REPLICAS not in new:
            return f"the default of {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled"
    elif MIN_INSYNC_REPLICAS in new:
        return f"{MIN_INSYNC_REPLICAS} cannot be set per broker while ELR is enabled"
    return None


def changes_after_configs(
    image: ClusterImage, changes: Iterable[MetadataChange]
) -> list[MetadataChange]:
    """Clear ELRs of partitions whose ISR is large enough by new configs.

    `image` has the new configs already; `changes` are what led to it. From then on leaders commit
    records that an ELR member does not have.
    """
    topics: dict[str, None] = {}
    for change in changes:
        if isinstance(change, ConfigsReplaced):
            if change.resource == DEFAULTS:
                topics.update(dict.fromkeys(image.topics))
            elif change.resource.resource_type is ResourceType.TOPIC:
                topics[change.resource.name] = None
    return [each for name in topics for each in _refreshed(image, name)]


def changes_after_downgrade(image: ClusterImage) -> list[MetadataChange]:
    """Undo what a cluster without ELRs does not have: ELRs, and empty ISRs.

    Members of the ELR have every committed record, so they are put back into an empty ISR.
    """
    found: list[MetadataChange] = []
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            isr = partition.isr or partition.elr or partition.last_known_elr
            has_elr = bool(partition.elr or partition.last_known_elr)
            if not topic.is_deleting and (has_elr or isr != partition.isr):
                after = replace(
                    partition,
                    isr=isr,
                    elr=(),
                    last_known_elr=(),
                    partition_epoch=partition.partition_epoch + 1,
                )
                found.append(PartitionChanged(topic.name, number, after))
    return found


def _refreshed(image: ClusterImage, name: str) -> Iterable[MetadataChange]:
    topic = image.topics.get(name)
    for number, before in enumerate(() if topic is None or topic.is_deleting else topic.partitions):
        after = with_elr(image, name, before, before)
        if after is not before:
            yield PartitionChanged(name, number, after)

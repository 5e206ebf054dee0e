"""The image that a broker works with (Kafka: BrokerMetadataPublisher).

The image of the metadata log gets ahead of what a starting broker may act on: it publishes nothing
before the controller has confirmed that the log contains its own registration. Until then the image
of an earlier process might let it lead partitions that have another leader by now.

Note: `PartitionDropped` is derived here: the log says which replicas a partition has, and each
broker finds out that it has ceased to be one of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headwater.common.ids import NodeId
from headwater.metadata.changes import (
    ControllerElected,
    ControllerGone,
    ImageListener,
    MetadataChange,
    PartitionChanged,
    PartitionDropped,
    TopicCreated,
    TopicKnown,
)
from headwater.metadata.cluster_image import NO_CONTROLLER, ClusterImage, Version
from headwater.metadata.image_delta import changes_between
from headwater.metadata_store.raft.metadata_version import KRAFT_VERSION


class BrokerMetadataPublisher:
    """Keeps the published image and tells the broker what changed in it."""

    def __init__(
        self,
        node_id: NodeId,
        image: ClusterImage,
        on_change: ImageListener,
        *,
        kraft_version: Callable[[], int] = lambda: 0,
    ) -> None:
        """`image` has configs, features and ACLs, which a broker needs to register."""
        self.image = image
        self.has_published = False
        self._node_id = node_id
        self._on_change = on_change
        self._kraft_version = kraft_version

    def publish_first(self, image: ClusterImage, offset: int) -> None:
        """Publish the whole image; its topics may have logs here."""
        changes = [
            TopicKnown(each.topic) if isinstance(each, TopicCreated) else each
            for each in changes_between(self.image, image)
        ]
        self.has_published = True
        self._publish(image, changes, offset)

    def publish(self, image: ClusterImage, changes: Sequence[MetadataChange], offset: int) -> None:
        """Publish what committed records changed; nothing before the first image."""
        if self.has_published and changes:
            self._publish(image, list(self._with_dropped(changes)), offset)

    def publish_snapshot(self, image: ClusterImage, offset: int) -> None:
        """Publish an image that replaced the last one."""
        self.publish(image, changes_between(self.image, image), offset)

    def controller_changed(self, controller_id: NodeId) -> None:
        """Set the active controller, which no record of the log names."""
        if controller_id == self.image.controller_id:
            return
        self.image = replace(self.image, controller_id=controller_id)
        has_none = controller_id == NO_CONTROLLER
        change = ControllerGone() if has_none else ControllerElected(controller_id)
        self._on_change(self.image, [change])

    def _publish(self, image: ClusterImage, changes: Sequence[MetadataChange], offset: int) -> None:
        kraft_version = self._kraft_version()
        self.image = replace(
            image,
            # As in Kafka, clients see the offset as the epoch of the finalized features.
            version=Version(0, offset),
            controller_id=self.image.controller_id,
            # The quorum keeps this level, in records that are not part of the image.
            features={**image.features, KRAFT_VERSION: kraft_version}
            if kraft_version
            else image.features,
        )
        self._on_change(self.image, changes)

    def _with_dropped(self, changes: Sequence[MetadataChange]) -> Iterable[MetadataChange]:
        for change in changes:
            yield change
            if isinstance(change, PartitionChanged) and self._leaves(change):
                yield PartitionDropped(change.topic, change.number, is_deleted=True)

    def _leaves(self, change: PartitionChanged) -> bool:
        before = self.image.partition(change.topic, change.number)
        was_replica = before is not None and self._node_id in before.replicas
        return was_replica and self._node_id not in change.partition.replicas

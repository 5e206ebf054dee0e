"""What a broker is told of the metadata log by its replica."""

from collections.abc import Sequence
from typing import Protocol

from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import ClusterImage


class MetadataImageListener(Protocol):
    """The broker that uses the image."""

    def committed(
        self, image: ClusterImage, changes: Sequence[MetadataChange], offset: int
    ) -> None:
        """A committed batch changed the image."""

    def snapshot_loaded(self, image: ClusterImage, offset: int) -> None:
        """A snapshot replaced the image."""

    def log_advanced(self) -> None:
        """All records that are known to be committed are applied."""

    def controller_changed(self) -> None:
        """There is another active controller, or none."""

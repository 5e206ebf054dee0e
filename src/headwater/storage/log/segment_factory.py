"""What the segments of one log share, and the settings they are created with.

Note: these settings take effect with the next segment. An existing segment keeps its index size,
jitter and preallocation.
"""

from dataclasses import dataclass
from pathlib import PurePath

from headwater.common.ports import Random
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.io.disk import Disk
from headwater.storage.io.open_files import OpenFiles


@dataclass(slots=True, kw_only=True)
class SegmentFactory:
    """Directory, files and creation settings of one log's segments."""

    disk: Disk
    files: OpenFiles
    folder: PurePath
    rng: Random
    index_interval_bytes: int = 0
    index_max_bytes: int = 0
    preallocated_bytes: int = 0
    jitter_limit_ms: int = 0

    def configure(self, settings: TopicSettings) -> None:
        """Apply new settings to segments created from now on."""
        self.index_interval_bytes = settings.index_interval_bytes
        self.index_max_bytes = settings.segment_index_bytes
        self.preallocated_bytes = settings.segment_bytes if settings.preallocate else 0
        # At most the age itself, or a segment could be too old before it has started.
        self.jitter_limit_ms = min(settings.segment_jitter_ms, settings.max_segment_ms)

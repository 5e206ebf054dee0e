"""Where the segments of one log live, and how they are made there.

What a reader would get wrong: settings of this kind take effect with the next segment. One that is
there keeps the limits of its indexes, its jitter and its reserve.
"""

from dataclasses import dataclass
from pathlib import PurePath

from headwater.common.ports import Random
from headwater.common.settings.topic_settings import TopicSettings
from headwater.storage.io.disk import Disk
from headwater.storage.io.open_files import OpenFiles


@dataclass(slots=True, kw_only=True)
class SegmentFactory:
    """What all segments of one log share. `configure` says how they are made from then on."""

    disk: Disk
    files: OpenFiles
    folder: PurePath
    rng: Random
    index_interval_bytes: int = 0
    index_max_bytes: int = 0
    preallocated_bytes: int = 0
    jitter_limit_ms: int = 0

    def configure(self, settings: TopicSettings) -> None:
        """Take new settings; a segment keeps the limits and the jitter it was made with."""
        self.index_interval_bytes = settings.index_interval_bytes
        self.index_max_bytes = settings.segment_index_bytes
        self.preallocated_bytes = settings.segment_bytes if settings.preallocate else 0
        # Below the age itself, or a segment could be too old before it has begun.
        self.jitter_limit_ms = min(settings.segment_jitter_ms, settings.max_segment_ms)

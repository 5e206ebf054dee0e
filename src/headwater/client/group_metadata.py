"""What producer and consumer tell each other: a group's member, and offsets to commit."""

from dataclasses import dataclass
from typing import NamedTuple

from headwater.model.ids import NO_EPOCH


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the next record to read, and a note."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata:
    """Who commits. With only the group's id nobody is fenced off."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

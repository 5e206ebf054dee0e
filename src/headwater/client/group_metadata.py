"""Offsets to commit and the group metadata that a consumer passes to a producer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.client.argument_checks import topic_partition, whole_number
from headwater.client.errors import InvalidArgument
from headwater.common.ids import NO_EPOCH, TopicPartition


class OffsetAndMetadata(NamedTuple):
    """An offset to commit: the next record to consume, and optional metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata:
    """The committing member. With the group id only, no fencing takes place."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


OffsetsToCommit = Mapping[TopicPartition, OffsetAndMetadata | int]


def offsets_to_commit(given: OffsetsToCommit) -> dict[TopicPartition, OffsetAndMetadata]:
    """Normalize offsets to commit: a number is an offset without metadata."""
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"offsets must be {{partition: offset}}, not {given!r}")
    return {topic_partition(each): _position(each, what) for each, what in given.items()}


def _position(partition: TopicPartition, given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    position = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    # A broker accepts a negative offset, but no consumer could start from it.
    offset = whole_number(position.offset, f"the offset of {partition}", least=0)
    return position._replace(offset=offset)

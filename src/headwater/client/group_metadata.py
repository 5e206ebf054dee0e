"""What producer and consumer tell each other: a group's member, and offsets to commit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.client.argument_checks import place, whole_number
from headwater.client.errors import InvalidArgument
from headwater.common.ids import NO_EPOCH, TopicPartition


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


OffsetsToCommit = Mapping[TopicPartition, OffsetAndMetadata | int]


def offsets_to_commit(given: OffsetsToCommit) -> dict[TopicPartition, OffsetAndMetadata]:
    """Positions as callers write them, made whole: a bare number is an offset without a note."""
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"offsets are given as {{partition: offset}}, and not as {given!r}")
    return {place(each): _position(each, what) for each, what in given.items()}


def _position(partition: TopicPartition, given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    position = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    # A broker keeps what is below zero too, and no consumer could go on from there.
    offset = whole_number(position.offset, f"the offset of {partition}", least=0)
    return position._replace(offset=offset)

"""Lets consumer groups move over: their offsets, translated, committed where the copies are.

What a reader would get wrong: a group there is never moved back, and never while it has members.
Whoever reads the copies already knows better how far it is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.client import Admin, OffsetAndMetadata, TopicPartition
from headwater.client.errors import KafkaError
from headwater.mirror.offset_map import MirrorOffsetMap
from headwater.mirror.topic_naming import PASSING_GROUPS

_CONSUMERS = ("consumer", "")

Maps = Callable[[TopicPartition], tuple[TopicPartition, MirrorOffsetMap] | None]
"""For a partition of an original, its copy and how their offsets belong together."""


@dataclass(slots=True)
class GroupOffsetSync:
    """Carries out what is needed. Both clients are somebody else's to close."""

    source: Admin
    target: Admin
    wanted: re.Pattern[str]
    refused: dict[str, str] = field(default_factory=dict)
    """Groups that could not be moved, and why."""

    def follow(self, maps: Maps) -> dict[str, dict[TopicPartition, int]]:
        """Move all groups as far as they can be; the answer has those that have moved."""
        moved = {}
        for group_id in self._groups():
            committed = self.source.list_group_offsets(group_id)
            offsets = translated(committed, maps)
            if not offsets:
                continue
            ahead = moves(offsets, self.target.list_group_offsets(group_id))
            if not ahead:
                continue
            try:
                self.target.alter_group_offsets(group_id, ahead)
            except KafkaError as error:
                # It has members there, most likely: it has moved already.
                self.refused[group_id] = str(error)
                continue
            self.refused.pop(group_id, None)
            moved[group_id] = {each: place.offset for each, place in ahead.items()}
        return moved

    def _groups(self) -> list[str]:
        return [
            each.group_id
            for each in self.source.list_groups()
            if each.protocol_type in _CONSUMERS
            and self.wanted.fullmatch(each.group_id)
            and not PASSING_GROUPS.fullmatch(each.group_id)
        ]


def translated(
    committed: Mapping[TopicPartition, OffsetAndMetadata], maps: Maps
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a group would have committed for the copies; its own notes go with the offsets."""
    found = {}
    for original, position in committed.items():
        known = maps(original)
        if known is None:
            continue
        copy, offsets = known
        offset = offsets.translated(position.offset)
        if offset is not None:
            found[copy] = OffsetAndMetadata(offset, metadata=position.metadata)
    return found


def moves(
    wanted: Mapping[TopicPartition, OffsetAndMetadata],
    there: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets that are ahead of what is committed already."""
    return {
        each: position
        for each, position in wanted.items()
        if each not in there or position.offset > there[each].offset
    }

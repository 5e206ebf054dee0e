"""Translate committed offsets of groups and commit them in the target.

Note: offsets in the target cluster are never moved back, and never while the group has members
there, because a group that already consumes the copies has the better offsets.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.client import Admin, OffsetAndMetadata, TopicPartition
from headwater.client.errors import KafkaError
from headwater.mirror.offset_map import MirrorOffsetMap
from headwater.mirror.topic_naming import EXCLUDED_GROUPS

_CONSUMERS = ("consumer", "")

Maps = Callable[[TopicPartition], tuple[TopicPartition, MirrorOffsetMap] | None]
"""For a source partition: its copy, and the map of offsets between them."""


@dataclass(slots=True)
class GroupOffsetSync:
    """Sync groups between two clusters. The caller closes both clients."""

    source: Admin
    target: Admin
    wanted: re.Pattern[str]
    errors: dict[str, str] = field(default_factory=dict)
    """Groups that could not be synced, and why."""

    def sync(self, maps: Maps) -> dict[str, dict[TopicPartition, int]]:
        """Sync all groups; return the offsets that were committed, by group."""
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
                # Most likely the group already has members in the target cluster.
                self.errors[group_id] = str(error)
                continue
            self.errors.pop(group_id, None)
            moved[group_id] = {each: place.offset for each, place in ahead.items()}
        return moved

    def _groups(self) -> list[str]:
        return [
            each.group_id
            for each in self.source.list_groups()
            if each.protocol_type in _CONSUMERS
            and self.wanted.fullmatch(each.group_id)
            and not EXCLUDED_GROUPS.fullmatch(each.group_id)
        ]


def translated(
    committed: Mapping[TopicPartition, OffsetAndMetadata], maps: Maps
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets of the copies for a group's committed offsets, with its metadata."""
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
    """Offsets that are ahead of those already committed."""
    return {
        each: position
        for each, position in wanted.items()
        if each not in there or position.offset > there[each].offset
    }

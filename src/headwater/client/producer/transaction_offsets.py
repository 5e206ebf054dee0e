"""Positions as callers write them, made whole."""

from collections.abc import Mapping

from headwater.client.group_metadata import OffsetAndMetadata
from headwater.model.ids import TopicPartition


def positions(
    given: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A bare number is an offset without a note."""
    return {
        TopicPartition(*place): position
        if isinstance(position, OffsetAndMetadata)
        else OffsetAndMetadata(position)
        for place, position in given.items()
    }

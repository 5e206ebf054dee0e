"""Find the previous owners of partitions, which the sticky assignors try to keep.

Members list their owned partitions in their subscriptions. A member that missed a rebalance claims
partitions that it has lost; the claim of the newest generation wins. A partition that two members
claim in the same generation has no owner, because one of the claims must be wrong.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from headwater.client.assignors.assignor import GroupMember
from headwater.common.exceptions import ProtocolError
from headwater.common.ids import TopicPartition
from headwater.protocol.consumer_protocol import NamedPartitions, named_partitions, partitions_of
from headwater.protocol.schema import many, one, protocol_message
from headwater.protocol.versioned_codec import VersionedCodec, codec_for

_GENERATION: Final = Struct(">i")
NO_GENERATION: Final = -1


@protocol_message
class StickyUserData:
    """User data of the eager sticky assignor; version 0 has no generation."""

    previous_assignment: tuple[NamedPartitions, ...] = many(NamedPartitions, default=())
    generation: int = one("int32", default=NO_GENERATION, since=1)


def write_sticky_user_data(owned: Sequence[TopicPartition], generation_id: int) -> bytes:
    layout: VersionedCodec[StickyUserData] = codec_for(StickyUserData, 1, flexible=False)
    data = StickyUserData(previous_assignment=named_partitions(owned), generation=generation_id)
    (part,) = layout.write(data)
    assert isinstance(part, bytearray)
    return bytes(part)


def write_generation(_owned: Sequence[TopicPartition], generation_id: int) -> bytes:
    """User data of the cooperative assignor: Kafka repeats the generation there."""
    return _GENERATION.pack(generation_id)


def previous_owners(members: Sequence[GroupMember]) -> dict[str, list[TopicPartition]]:
    """The partitions owned by each member, limited to its current topics."""
    claims = [(*_claim(member), member) for member in members]
    newest: dict[TopicPartition, int] = {}
    claimants: dict[TopicPartition, int] = {}
    for owned, generation_id, _ in claims:
        for partition in dict.fromkeys(owned):
            known = newest.get(partition)
            if known is None or generation_id > known:
                newest[partition] = generation_id
                claimants[partition] = 1
            elif generation_id == known:
                claimants[partition] += 1
    return {
        member.member_id: sorted(
            partition
            for partition in dict.fromkeys(owned)
            if partition.topic in member.topics
            and newest[partition] == generation_id
            and claimants[partition] == 1
        )
        for owned, generation_id, member in claims
    }


def _claim(member: GroupMember) -> tuple[Sequence[TopicPartition], int]:
    """Owned partitions and generation, from the subscription or old user data."""
    if member.owned or member.generation_id != NO_GENERATION:
        return member.owned, member.generation_id
    data = member.user_data
    if not data:
        return (), NO_GENERATION
    if len(data) == _GENERATION.size:
        return (), int(_GENERATION.unpack(data)[0])
    for version in (1, 0):
        layout: VersionedCodec[StickyUserData] = codec_for(StickyUserData, version, flexible=False)
        try:
            read = layout.read(memoryview(data))
        except ProtocolError:
            continue
        return partitions_of(read.previous_assignment), read.generation
    # Unknown user data of another client under the same name: treat it as owning nothing.
    return (), NO_GENERATION

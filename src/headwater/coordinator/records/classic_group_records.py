"""Record of a classic group in `__consumer_offsets`: the complete group.

A null value means that the group was deleted or converted to another type.
"""

from dataclasses import dataclass

from headwater.common.ids import NO_TIMESTAMP
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class GroupMetadataKey:
    group: str = one("string", default="")


@protocol_message
class MemberMetadata:
    """Timeouts are in milliseconds; the field names are Kafka's."""

    member_id: str = one("string", default="")
    group_instance_id: str | None = one(
        "string", default=None, since=3, nullable_since=3, ignorable=True
    )
    client_id: str = one("string", default="")
    client_host: str = one("string", default="")
    rebalance_timeout: int = one("int32", default=-1, since=1, ignorable=True)
    session_timeout: int = one("int32", default=0)
    subscription: bytes = one("bytes", default=b"")
    assignment: bytes = one("bytes", default=b"")


@protocol_message
class GroupMetadataValue:
    protocol_type: str = one("string", default="")
    generation: int = one("int32", default=0)
    protocol: str | None = one("string", default=None, nullable_since=0)
    leader: str | None = one("string", default=None, nullable_since=0)
    current_state_timestamp: int = one("int64", default=NO_TIMESTAMP, since=2, ignorable=True)
    members: tuple[MemberMetadata, ...] = many(MemberMetadata, default=())


@dataclass(frozen=True, slots=True)
class GroupMetadataRecord:
    key: GroupMetadataKey
    value: GroupMetadataValue | None

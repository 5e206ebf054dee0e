"""Records of committed offsets in `__consumer_offsets`.

The key of a commit has type 1. Type 0 was written by brokers before 0.8.2.1; it is read as the same
record and never written. A null value deletes the commit.
"""

from dataclasses import dataclass

from headwater.common.ids import NO_EPOCH, NO_TIMESTAMP, NO_TOPIC_ID, TopicId
from headwater.protocol.schema import one, protocol_message


@protocol_message
class OffsetCommitKey:
    group: str = one("string", default="")
    topic: str = one("string", default="")
    partition: int = one("int32", default=0)


@protocol_message
class OffsetCommitValue:
    """Value of a committed offset; version 1 has its own expire timestamp (OE-2)."""

    offset: int = one("int64", default=0)
    leader_epoch: int = one("int32", default=NO_EPOCH, since=3, ignorable=True)
    metadata: str = one("string", default="")
    commit_timestamp: int = one("int64", default=0)
    expire_timestamp: int = one("int64", default=NO_TIMESTAMP, since=1, until=1, ignorable=True)
    topic_id: TopicId = one(
        "uuid", default=NO_TOPIC_ID, since=4, tag=0, tag_since=4, ignorable=True
    )


@dataclass(frozen=True, slots=True)
class OffsetCommitRecord:
    key: OffsetCommitKey
    value: OffsetCommitValue | None

"""AddRaftVoter: make an observer a voter of the quorum (KIP-853)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class Listener:
    name: str = one("string", default="")
    host: str = one("string", default="")
    port: int = one("uint16", default=0)


@protocol_message
class AddRaftVoterRequest:
    api: ClassVar = ApiKey.ADD_RAFT_VOTER

    cluster_id: str | None = one("string", default=None, nullable_since=0)
    timeout_ms: int = one("int32", default=0)
    voter_id: int = one("int32", default=0)
    voter_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    listeners: tuple[Listener, ...] = many(Listener, default=())


@protocol_message
class AddRaftVoterResponse:
    api: ClassVar = ApiKey.ADD_RAFT_VOTER

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0, ignorable=True)

"""UpdateRaftVoter: a voter's endpoints and kraft.version range (KIP-853)."""

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
class KRaftVersionFeature:
    min_supported_version: int = one("int16", default=0)
    max_supported_version: int = one("int16", default=0)


@protocol_message
class UpdateRaftVoterRequest:
    api: ClassVar = ApiKey.UPDATE_RAFT_VOTER

    cluster_id: str | None = one("string", default=None, nullable_since=0)
    current_leader_epoch: int = one("int32", default=0)
    voter_id: int = one("int32", default=0)
    voter_directory_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    listeners: tuple[Listener, ...] = many(Listener, default=())
    k_raft_version_feature: KRaftVersionFeature = one(
        KRaftVersionFeature, default=KRaftVersionFeature()
    )


@protocol_message
class CurrentLeader:
    leader_id: int = one("int32", default=-1)
    leader_epoch: int = one("int32", default=-1)
    host: str = one("string", default="")
    port: int = one("int32", default=0)


@protocol_message
class UpdateRaftVoterResponse:
    api: ClassVar = ApiKey.UPDATE_RAFT_VOTER

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    current_leader: CurrentLeader = one(CurrentLeader, default=CurrentLeader(), tag=0)

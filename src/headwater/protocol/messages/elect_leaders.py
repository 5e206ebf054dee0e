"""ElectLeaders: trigger preferred (0) or unclean (1) leader election."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class TopicPartitions:
    topic: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class ElectLeadersRequest:
    api: ClassVar = ApiKey.ELECT_LEADERS

    election_type: int = one("int8", default=0, since=1)
    topic_partitions: tuple[TopicPartitions, ...] | None = many(
        TopicPartitions, default=(), nullable_since=0
    )
    timeout_ms: int = one("int32", default=60000)


@protocol_message
class PartitionResult:
    partition_id: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class ReplicaElectionResult:
    topic: str = one("string", default="")
    partition_result: tuple[PartitionResult, ...] = many(PartitionResult, default=())


@protocol_message
class ElectLeadersResponse:
    api: ClassVar = ApiKey.ELECT_LEADERS

    throttle_time_ms: int = one("int32", default=0)
    # Ignorable here, unlike in Kafka's schema: version 0 has only the partitions.
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE, since=1, ignorable=True)
    replica_election_results: tuple[ReplicaElectionResult, ...] = many(
        ReplicaElectionResult, default=()
    )

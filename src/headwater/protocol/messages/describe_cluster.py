"""DescribeCluster: brokers or controllers, cluster id, authorized operations."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DescribeClusterRequest:
    api: ClassVar = ApiKey.DESCRIBE_CLUSTER

    include_cluster_authorized_operations: bool = one("bool", default=False)
    endpoint_type: int = one("int8", default=1, since=1)
    include_fenced_brokers: bool = one("bool", default=False, since=2)


@protocol_message
class DescribeClusterBroker:
    broker_id: int = one("int32", default=0)
    host: str = one("string", default="")
    port: int = one("int32", default=0)
    rack: str | None = one("string", default=None, nullable_since=0)
    is_fenced: bool = one("bool", default=False, since=2)


@protocol_message
class DescribeClusterResponse:
    api: ClassVar = ApiKey.DESCRIBE_CLUSTER

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    endpoint_type: int = one("int8", default=1, since=1)
    cluster_id: str = one("string", default="")
    controller_id: int = one("int32", default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = many(DescribeClusterBroker, default=())
    cluster_authorized_operations: int = one("int32", default=-2147483648)

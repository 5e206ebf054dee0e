"""DescribeConfigs.

Read topic/broker/logger/client-metrics/group configs, with source and synonyms.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DescribeConfigsResource:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    configuration_keys: tuple[str, ...] | None = many("string", default=(), nullable_since=0)


@protocol_message
class DescribeConfigsRequest:
    api: ClassVar = ApiKey.DESCRIBE_CONFIGS

    resources: tuple[DescribeConfigsResource, ...] = many(DescribeConfigsResource, default=())
    include_synonyms: bool = one("bool", default=False)
    include_documentation: bool = one("bool", default=False, since=3)


@protocol_message
class DescribeConfigsSynonym:
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)
    source: int = one("int8", default=0)


@protocol_message
class DescribeConfigsResourceResult:
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)
    read_only: bool = one("bool", default=False)
    config_source: int = one("int8", default=-1)
    is_sensitive: bool = one("bool", default=False)
    synonyms: tuple[DescribeConfigsSynonym, ...] = many(DescribeConfigsSynonym, default=())
    config_type: int = one("int8", default=0, since=3, ignorable=True)
    documentation: str | None = one("string", default="", since=3, nullable_since=0, ignorable=True)


@protocol_message
class DescribeConfigsResult:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    configs: tuple[DescribeConfigsResourceResult, ...] = many(
        DescribeConfigsResourceResult, default=()
    )


@protocol_message
class DescribeConfigsResponse:
    api: ClassVar = ApiKey.DESCRIBE_CONFIGS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[DescribeConfigsResult, ...] = many(DescribeConfigsResult, default=())

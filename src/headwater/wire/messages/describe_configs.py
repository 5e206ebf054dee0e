"""DescribeConfigs.

Read topic/broker/logger/client-metrics/group configs, with source and synonyms.
"""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class DescribeConfigsResource:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    configuration_keys: tuple[str, ...] | None = many("string", default=(), nullable_since=0)


@shape
class DescribeConfigsRequest:
    api: ClassVar = ApiKey.DESCRIBE_CONFIGS

    resources: tuple[DescribeConfigsResource, ...] = many(DescribeConfigsResource, default=())
    include_synonyms: bool = one("bool", default=False)
    include_documentation: bool = one("bool", default=False, since=3)


@shape
class DescribeConfigsSynonym:
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)
    source: int = one("int8", default=0)


@shape
class DescribeConfigsResourceResult:
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)
    read_only: bool = one("bool", default=False)
    config_source: int = one("int8", default=-1)
    is_sensitive: bool = one("bool", default=False)
    synonyms: tuple[DescribeConfigsSynonym, ...] = many(DescribeConfigsSynonym, default=())
    config_type: int = one("int8", default=0, since=3, ignorable=True)
    documentation: str | None = one("string", default="", since=3, nullable_since=0, ignorable=True)


@shape
class DescribeConfigsResult:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    configs: tuple[DescribeConfigsResourceResult, ...] = many(
        DescribeConfigsResourceResult, default=()
    )


@shape
class DescribeConfigsResponse:
    api: ClassVar = ApiKey.DESCRIBE_CONFIGS

    throttle_time_ms: int = one("int32", default=0)
    results: tuple[DescribeConfigsResult, ...] = many(DescribeConfigsResult, default=())

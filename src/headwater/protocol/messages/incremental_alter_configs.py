"""IncrementalAlterConfigs: SET 0, DELETE 1, APPEND 2, SUBTRACT 3."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class AlterableConfig:
    name: str = one("string", default="")
    config_operation: int = one("int8", default=0)
    value: str | None = one("string", default="", nullable_since=0)


@protocol_message
class AlterConfigsResource:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    configs: tuple[AlterableConfig, ...] = many(AlterableConfig, default=())


@protocol_message
class IncrementalAlterConfigsRequest:
    api: ClassVar = ApiKey.INCREMENTAL_ALTER_CONFIGS

    resources: tuple[AlterConfigsResource, ...] = many(AlterConfigsResource, default=())
    validate_only: bool = one("bool", default=False)


@protocol_message
class AlterConfigsResourceResponse:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")


@protocol_message
class IncrementalAlterConfigsResponse:
    api: ClassVar = ApiKey.INCREMENTAL_ALTER_CONFIGS

    throttle_time_ms: int = one("int32", default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = many(
        AlterConfigsResourceResponse, default=()
    )

"""AlterConfigs: legacy full-replace config change."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class AlterableConfig:
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)


@protocol_message
class AlterConfigsResource:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    configs: tuple[AlterableConfig, ...] = many(AlterableConfig, default=())


@protocol_message
class AlterConfigsRequest:
    api: ClassVar = ApiKey.ALTER_CONFIGS

    resources: tuple[AlterConfigsResource, ...] = many(AlterConfigsResource, default=())
    validate_only: bool = one("bool", default=False)


@protocol_message
class AlterConfigsResourceResponse:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")


@protocol_message
class AlterConfigsResponse:
    api: ClassVar = ApiKey.ALTER_CONFIGS

    throttle_time_ms: int = one("int32", default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = many(
        AlterConfigsResourceResponse, default=()
    )

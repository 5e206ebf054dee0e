"""AlterConfigs: legacy full-replace config change."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class AlterableConfig:
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)


@shape
class AlterConfigsResource:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    configs: tuple[AlterableConfig, ...] = many(AlterableConfig, default=())


@shape
class AlterConfigsRequest:
    api: ClassVar = ApiKey.ALTER_CONFIGS

    resources: tuple[AlterConfigsResource, ...] = many(AlterConfigsResource, default=())
    validate_only: bool = one("bool", default=False)


@shape
class AlterConfigsResourceResponse:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")


@shape
class AlterConfigsResponse:
    api: ClassVar = ApiKey.ALTER_CONFIGS

    throttle_time_ms: int = one("int32", default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = many(
        AlterConfigsResourceResponse, default=()
    )

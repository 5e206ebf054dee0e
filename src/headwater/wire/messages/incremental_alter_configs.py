"""IncrementalAlterConfigs: incremental config change: SET 0, DELETE 1, APPEND 2, SUBTRACT 3."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class AlterableConfig:
    name: str = one("string", default="")
    config_operation: int = one("int8", default=0)
    value: str | None = one("string", default="", nullable_since=0)


@shape
class AlterConfigsResource:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    configs: tuple[AlterableConfig, ...] = many(AlterableConfig, default=())


@shape
class IncrementalAlterConfigsRequest:
    api: ClassVar = ApiKey.INCREMENTAL_ALTER_CONFIGS

    resources: tuple[AlterConfigsResource, ...] = many(AlterConfigsResource, default=())
    validate_only: bool = one("bool", default=False)


@shape
class AlterConfigsResourceResponse:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")


@shape
class IncrementalAlterConfigsResponse:
    api: ClassVar = ApiKey.INCREMENTAL_ALTER_CONFIGS

    throttle_time_ms: int = one("int32", default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = many(
        AlterConfigsResourceResponse, default=()
    )

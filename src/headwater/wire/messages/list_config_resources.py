"""ListConfigResources: names of what has configs; version 0 knew client metrics only."""

from typing import ClassVar, Final, Self

from headwater.model.errors import ErrorCode
from headwater.model.failures import UnsupportedInVersion
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape

CLIENT_METRICS: Final = 16


@shape
class ListConfigResourcesRequestUpToV0:
    def lift(self) -> "ListConfigResourcesRequest":
        """Version 0 knew client metrics only."""
        return ListConfigResourcesRequest(resource_types=(CLIENT_METRICS,))

    @classmethod
    def lower(cls, message: "ListConfigResourcesRequest") -> Self:
        if message.resource_types != (CLIENT_METRICS,):
            raise UnsupportedInVersion("version 0 lists client metrics only")
        return cls()


@shape
class ListConfigResourcesRequest:
    api: ClassVar = ApiKey.LIST_CONFIG_RESOURCES
    older: ClassVar = {0: ListConfigResourcesRequestUpToV0}

    resource_types: tuple[int, ...] = many("int8", default=())


@shape
class ConfigResource:
    resource_name: str = one("string", default="")
    resource_type: int = one("int8", default=CLIENT_METRICS, since=1, ignorable=True)


@shape
class ListConfigResourcesResponse:
    api: ClassVar = ApiKey.LIST_CONFIG_RESOURCES

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    config_resources: tuple[ConfigResource, ...] = many(ConfigResource, default=())

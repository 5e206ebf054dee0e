"""ListConfigResources: resources with configs; version 0 only client metrics."""

from typing import ClassVar, Final, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import UnsupportedInVersion
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message

CLIENT_METRICS: Final = 16


@protocol_message
class ListConfigResourcesRequestUpToV0:
    def lift(self) -> "ListConfigResourcesRequest":
        """Version 0 lists only client metrics."""
        return ListConfigResourcesRequest(resource_types=(CLIENT_METRICS,))

    @classmethod
    def lower(cls, message: "ListConfigResourcesRequest") -> Self:
        if message.resource_types != (CLIENT_METRICS,):
            raise UnsupportedInVersion("version 0 lists client metrics only")
        return cls()


@protocol_message
class ListConfigResourcesRequest:
    api: ClassVar = ApiKey.LIST_CONFIG_RESOURCES
    older: ClassVar = {0: ListConfigResourcesRequestUpToV0}

    resource_types: tuple[int, ...] = many("int8", default=())


@protocol_message
class ConfigResource:
    resource_name: str = one("string", default="")
    resource_type: int = one("int8", default=CLIENT_METRICS, since=1, ignorable=True)


@protocol_message
class ListConfigResourcesResponse:
    api: ClassVar = ApiKey.LIST_CONFIG_RESOURCES

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    config_resources: tuple[ConfigResource, ...] = many(ConfigResource, default=())

"""ApiVersions: supported versions and features, also before authentication."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ApiVersionsRequest:
    api: ClassVar = ApiKey.API_VERSIONS

    client_software_name: str = one("string", default="", since=3, ignorable=True)
    client_software_version: str = one("string", default="", since=3, ignorable=True)


@protocol_message
class ApiVersion:
    api_key: int = one("int16", default=0)
    min_version: int = one("int16", default=0)
    max_version: int = one("int16", default=0)


@protocol_message
class SupportedFeatureKey:
    name: str = one("string", default="")
    min_version: int = one("int16", default=0)
    max_version: int = one("int16", default=0)


@protocol_message
class FinalizedFeatureKey:
    name: str = one("string", default="")
    max_version_level: int = one("int16", default=0)
    min_version_level: int = one("int16", default=0)


@protocol_message
class ApiVersionsResponse:
    api: ClassVar = ApiKey.API_VERSIONS

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    api_keys: tuple[ApiVersion, ...] = many(ApiVersion, default=())
    throttle_time_ms: int = one("int32", default=0, since=1, ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = many(
        SupportedFeatureKey, default=(), since=3, tag=0, ignorable=True
    )
    finalized_features_epoch: int = one("int64", default=-1, since=3, tag=1, ignorable=True)
    finalized_features: tuple[FinalizedFeatureKey, ...] = many(
        FinalizedFeatureKey, default=(), since=3, tag=2, ignorable=True
    )
    zk_migration_ready: bool = one("bool", default=False, since=3, tag=3, ignorable=True)

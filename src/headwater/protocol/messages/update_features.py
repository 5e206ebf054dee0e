"""UpdateFeatures: raise or lower the finalized level of features."""

from typing import ClassVar, Final, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import UnsupportedInVersion
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2


@protocol_message
class FeatureUpdateKey:
    feature: str = one("string", default="")
    max_version_level: int = one("int16", default=0)
    upgrade_type: int = one("int8", default=UPGRADE)


@protocol_message
class FeatureUpdateKeyUpToV0:
    feature: str = one("string", default="")
    max_version_level: int = one("int16", default=0)
    allow_downgrade: bool = one("bool", default=False)


@protocol_message
class UpdateFeaturesRequestUpToV0:
    timeout_ms: int = one("int32", default=60000)
    feature_updates: tuple[FeatureUpdateKeyUpToV0, ...] = many(FeatureUpdateKeyUpToV0, default=())

    def lift(self) -> "UpdateFeaturesRequest":
        """Version 0's downgrade is the safe downgrade of version 1."""
        updates = tuple(
            FeatureUpdateKey(
                feature=update.feature,
                max_version_level=update.max_version_level,
                upgrade_type=SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE,
            )
            for update in self.feature_updates
        )
        return UpdateFeaturesRequest(timeout_ms=self.timeout_ms, feature_updates=updates)

    @classmethod
    def lower(cls, message: "UpdateFeaturesRequest") -> Self:
        if message.validate_only:
            raise UnsupportedInVersion("version 0 cannot ask to validate only")
        updates = tuple(
            FeatureUpdateKeyUpToV0(
                feature=update.feature,
                max_version_level=update.max_version_level,
                allow_downgrade=update.upgrade_type != UPGRADE,
            )
            for update in message.feature_updates
        )
        return cls(timeout_ms=message.timeout_ms, feature_updates=updates)


@protocol_message
class UpdateFeaturesRequest:
    api: ClassVar = ApiKey.UPDATE_FEATURES
    older: ClassVar = {0: UpdateFeaturesRequestUpToV0}

    timeout_ms: int = one("int32", default=60000)
    feature_updates: tuple[FeatureUpdateKey, ...] = many(FeatureUpdateKey, default=())
    validate_only: bool = one("bool", default=False)


@protocol_message
class UpdatableFeatureResult:
    feature: str = one("string", default="")
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)


@protocol_message
class UpdateFeaturesResponse:
    api: ClassVar = ApiKey.UPDATE_FEATURES

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    results: tuple[UpdatableFeatureResult, ...] = many(
        UpdatableFeatureResult, default=(), until=1, ignorable=True
    )

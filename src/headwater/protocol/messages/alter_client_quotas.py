"""AlterClientQuotas: change client quotas."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class EntityData:
    entity_type: str = one("string", default="")
    entity_name: str | None = one("string", default="", nullable_since=0)


@protocol_message
class OpData:
    key: str = one("string", default="")
    value: float = one("float64", default=0.0)
    remove: bool = one("bool", default=False)


@protocol_message
class EntryData:
    entity: tuple[EntityData, ...] = many(EntityData, default=())
    ops: tuple[OpData, ...] = many(OpData, default=())


@protocol_message
class AlterClientQuotasRequest:
    api: ClassVar = ApiKey.ALTER_CLIENT_QUOTAS

    entries: tuple[EntryData, ...] = many(EntryData, default=())
    validate_only: bool = one("bool", default=False)


@protocol_message
class EntryResult:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    entity: tuple[EntityData, ...] = many(EntityData, default=())


@protocol_message
class AlterClientQuotasResponse:
    api: ClassVar = ApiKey.ALTER_CLIENT_QUOTAS

    throttle_time_ms: int = one("int32", default=0)
    entries: tuple[EntryResult, ...] = many(EntryResult, default=())

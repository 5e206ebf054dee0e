"""DescribeClientQuotas: read client quotas by entity filter."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ComponentData:
    entity_type: str = one("string", default="")
    match_type: int = one("int8", default=0)
    match: str | None = one("string", default="", nullable_since=0)


@protocol_message
class DescribeClientQuotasRequest:
    api: ClassVar = ApiKey.DESCRIBE_CLIENT_QUOTAS

    components: tuple[ComponentData, ...] = many(ComponentData, default=())
    strict: bool = one("bool", default=False)


@protocol_message
class EntityData:
    entity_type: str = one("string", default="")
    entity_name: str | None = one("string", default="", nullable_since=0)


@protocol_message
class ValueData:
    key: str = one("string", default="")
    value: float = one("float64", default=0.0)


@protocol_message
class EntryData:
    entity: tuple[EntityData, ...] = many(EntityData, default=())
    values: tuple[ValueData, ...] = many(ValueData, default=())


@protocol_message
class DescribeClientQuotasResponse:
    api: ClassVar = ApiKey.DESCRIBE_CLIENT_QUOTAS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    entries: tuple[EntryData, ...] | None = many(EntryData, default=(), nullable_since=0)

"""DescribeClientQuotas: read client quotas by entity filter."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class ComponentData:
    entity_type: str = one("string", default="")
    match_type: int = one("int8", default=0)
    match: str | None = one("string", default="", nullable_since=0)


@shape
class DescribeClientQuotasRequest:
    api: ClassVar = ApiKey.DESCRIBE_CLIENT_QUOTAS

    components: tuple[ComponentData, ...] = many(ComponentData, default=())
    strict: bool = one("bool", default=False)


@shape
class EntityData:
    entity_type: str = one("string", default="")
    entity_name: str | None = one("string", default="", nullable_since=0)


@shape
class ValueData:
    key: str = one("string", default="")
    value: float = one("float64", default=0.0)


@shape
class EntryData:
    entity: tuple[EntityData, ...] = many(EntityData, default=())
    values: tuple[ValueData, ...] = many(ValueData, default=())


@shape
class DescribeClientQuotasResponse:
    api: ClassVar = ApiKey.DESCRIBE_CLIENT_QUOTAS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)
    entries: tuple[EntryData, ...] | None = many(EntryData, default=(), nullable_since=0)

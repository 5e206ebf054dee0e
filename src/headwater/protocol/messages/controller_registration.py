"""ControllerRegistration: a controller registers with the active one (KIP-919)."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class Listener:
    name: str = one("string", default="")
    host: str = one("string", default="")
    port: int = one("uint16", default=0)
    security_protocol: int = one("int16", default=0)


@protocol_message
class Feature:
    name: str = one("string", default="")
    min_supported_version: int = one("int16", default=0)
    max_supported_version: int = one("int16", default=0)


@protocol_message
class ControllerRegistrationRequest:
    api: ClassVar = ApiKey.CONTROLLER_REGISTRATION

    controller_id: int = one("int32", default=0)
    incarnation_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    zk_migration_ready: bool = one("bool", default=False)
    listeners: tuple[Listener, ...] = many(Listener, default=())
    features: tuple[Feature, ...] = many(Feature, default=())


@protocol_message
class ControllerRegistrationResponse:
    api: ClassVar = ApiKey.CONTROLLER_REGISTRATION

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    error_message: str | None = one("string", default=None, nullable_since=0)

"""BrokerRegistration: a broker registers with the active controller (KIP-631)."""

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
class BrokerRegistrationRequest:
    api: ClassVar = ApiKey.BROKER_REGISTRATION

    broker_id: int = one("int32", default=0)
    cluster_id: str = one("string", default="")
    incarnation_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    listeners: tuple[Listener, ...] = many(Listener, default=())
    features: tuple[Feature, ...] = many(Feature, default=())
    rack: str | None = one("string", default=None, nullable_since=0)
    is_migrating_zk_broker: bool = one("bool", default=False, since=1)
    log_dirs: tuple[TopicId, ...] = many("uuid", default=(), since=2, ignorable=True)
    previous_broker_epoch: int = one("int64", default=-1, since=3, ignorable=True)


@protocol_message
class BrokerRegistrationResponse:
    api: ClassVar = ApiKey.BROKER_REGISTRATION

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    broker_epoch: int = one("int64", default=-1)

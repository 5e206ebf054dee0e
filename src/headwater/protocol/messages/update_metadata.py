"""UpdateMetadata: the controller sends cluster metadata to a broker."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class UpdateMetadataPartitionState:
    partition_index: int = one("int32", default=0)
    controller_epoch: int = one("int32", default=0)
    leader: int = one("int32", default=0)
    leader_epoch: int = one("int32", default=0)
    isr: tuple[int, ...] = many("int32", default=())
    zk_version: int = one("int32", default=0)
    replicas: tuple[int, ...] = many("int32", default=())
    offline_replicas: tuple[int, ...] = many("int32", default=())


@protocol_message
class UpdateMetadataTopicState:
    topic_name: str = one("string", default="")
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    partition_states: tuple[UpdateMetadataPartitionState, ...] = many(
        UpdateMetadataPartitionState, default=()
    )


@protocol_message
class UpdateMetadataEndpoint:
    port: int = one("int32", default=0)
    host: str = one("string", default="")
    listener: str = one("string", default="")
    security_protocol: int = one("int16", default=0)


@protocol_message
class UpdateMetadataBroker:
    id: int = one("int32", default=0)
    endpoints: tuple[UpdateMetadataEndpoint, ...] = many(UpdateMetadataEndpoint, default=())
    rack: str | None = one("string", default="", nullable_since=0)


@protocol_message
class UpdateMetadataRequest:
    api: ClassVar = ApiKey.UPDATE_METADATA

    controller_id: int = one("int32", default=0)
    is_kraft_controller: bool = one("bool", default=False)
    type: int = one("int8", default=0, tag=0)
    controller_epoch: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    topic_states: tuple[UpdateMetadataTopicState, ...] = many(
        UpdateMetadataTopicState, default=(), shared=True
    )
    live_brokers: tuple[UpdateMetadataBroker, ...] = many(UpdateMetadataBroker, default=())
    # Not in Kafka: sequence number, from 1, of the controller's requests to one broker
    # registration. Receivers that do not know the tag skip it.
    order: int = one("int64", default=0, tag=10_000)


@protocol_message
class UpdateMetadataResponse:
    api: ClassVar = ApiKey.UPDATE_METADATA

    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)

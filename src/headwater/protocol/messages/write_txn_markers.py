"""WriteTxnMarkers: the coordinator sends markers to partition leaders."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class WritableTxnMarkerTopic:
    name: str = one("string", default="")
    partition_indexes: tuple[int, ...] = many("int32", default=())


@protocol_message
class WritableTxnMarker:
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int16", default=0)
    transaction_result: bool = one("bool", default=False)
    topics: tuple[WritableTxnMarkerTopic, ...] = many(WritableTxnMarkerTopic, default=())
    coordinator_epoch: int = one("int32", default=0)
    # Not in Kafka, whose version 2 has a field for it (KIP-1228): the transaction version in which
    # the end was decided. Receivers that do not know the tag skip it.
    client_version: int = one("int8", default=0, tag=10_000)


@protocol_message
class WriteTxnMarkersRequest:
    api: ClassVar = ApiKey.WRITE_TXN_MARKERS

    markers: tuple[WritableTxnMarker, ...] = many(WritableTxnMarker, default=())


@protocol_message
class WritableTxnMarkerPartitionResult:
    partition_index: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class WritableTxnMarkerTopicResult:
    name: str = one("string", default="")
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = many(
        WritableTxnMarkerPartitionResult, default=()
    )


@protocol_message
class WritableTxnMarkerResult:
    producer_id: int = one("int64", default=0)
    topics: tuple[WritableTxnMarkerTopicResult, ...] = many(
        WritableTxnMarkerTopicResult, default=()
    )


@protocol_message
class WriteTxnMarkersResponse:
    api: ClassVar = ApiKey.WRITE_TXN_MARKERS

    markers: tuple[WritableTxnMarkerResult, ...] = many(WritableTxnMarkerResult, default=())

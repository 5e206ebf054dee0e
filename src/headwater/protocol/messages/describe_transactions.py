"""DescribeTransactions: state of transactional ids."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class DescribeTransactionsRequest:
    api: ClassVar = ApiKey.DESCRIBE_TRANSACTIONS

    transactional_ids: tuple[str, ...] = many("string", default=())


@protocol_message
class TopicData:
    topic: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class TransactionState:
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    transactional_id: str = one("string", default="")
    transaction_state: str = one("string", default="")
    transaction_timeout_ms: int = one("int32", default=0)
    transaction_start_time_ms: int = one("int64", default=0)
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int16", default=0)
    topics: tuple[TopicData, ...] = many(TopicData, default=())


@protocol_message
class DescribeTransactionsResponse:
    api: ClassVar = ApiKey.DESCRIBE_TRANSACTIONS

    throttle_time_ms: int = one("int32", default=0)
    transaction_states: tuple[TransactionState, ...] = many(TransactionState, default=())

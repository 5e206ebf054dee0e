"""ListTransactions: list transactions held by this coordinator, with filters."""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class ListTransactionsRequest:
    api: ClassVar = ApiKey.LIST_TRANSACTIONS

    state_filters: tuple[str, ...] = many("string", default=())
    producer_id_filters: tuple[int, ...] = many("int64", default=())
    duration_filter: int = one("int64", default=-1, since=1)
    transactional_id_pattern: str | None = one("string", default=None, since=2, nullable_since=2)


@protocol_message
class TransactionState:
    transactional_id: str = one("string", default="")
    producer_id: int = one("int64", default=0)
    transaction_state: str = one("string", default="")


@protocol_message
class ListTransactionsResponse:
    api: ClassVar = ApiKey.LIST_TRANSACTIONS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    unknown_state_filters: tuple[str, ...] = many("string", default=())
    transaction_states: tuple[TransactionState, ...] = many(TransactionState, default=())

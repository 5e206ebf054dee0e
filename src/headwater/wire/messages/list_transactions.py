"""ListTransactions: list transactions held by this coordinator, with filters."""

from typing import ClassVar

from headwater.model.errors import ErrorCode
from headwater.wire.api_key import ApiKey
from headwater.wire.shape import many, one, shape


@shape
class ListTransactionsRequest:
    api: ClassVar = ApiKey.LIST_TRANSACTIONS

    state_filters: tuple[str, ...] = many("string", default=())
    producer_id_filters: tuple[int, ...] = many("int64", default=())
    duration_filter: int = one("int64", default=-1, since=1)
    transactional_id_pattern: str | None = one("string", default=None, since=2, nullable_since=2)


@shape
class TransactionState:
    transactional_id: str = one("string", default="")
    producer_id: int = one("int64", default=0)
    transaction_state: str = one("string", default="")


@shape
class ListTransactionsResponse:
    api: ClassVar = ApiKey.LIST_TRANSACTIONS

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    unknown_state_filters: tuple[str, ...] = many("string", default=())
    transaction_states: tuple[TransactionState, ...] = many(TransactionState, default=())

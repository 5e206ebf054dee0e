"""InitProducerId.

Get producer id + epoch (idempotent producer), or start/resume/fence a transactional id. Needed
by default since idempotence is on by default.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.schema import one, protocol_message


@protocol_message
class InitProducerIdRequest:
    api: ClassVar = ApiKey.INIT_PRODUCER_ID

    transactional_id: str | None = one("string", default="", nullable_since=0)
    transaction_timeout_ms: int = one("int32", default=0)
    producer_id: int = one("int64", default=-1, since=3)
    producer_epoch: int = one("int16", default=-1, since=3)
    enable2_pc: bool = one("bool", default=False, since=6)
    keep_prepared_txn: bool = one("bool", default=False, since=6)


@protocol_message
class InitProducerIdResponse:
    api: ClassVar = ApiKey.INIT_PRODUCER_ID

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    producer_id: int = one("int64", default=-1)
    producer_epoch: int = one("int16", default=0)
    ongoing_txn_producer_id: int = one("int64", default=-1, since=6)
    ongoing_txn_producer_epoch: int = one("int16", default=-1, since=6)

"""Record of a transactional id in `__transaction_state`: the complete state.

The tagged fields of version 1 exist since transaction version 2 (KIP-890). The partitions of an
empty transaction are null, not an empty list, as in Kafka 4.1.
"""

from dataclasses import dataclass

from headwater.common.ids import NO_EPOCH, NO_PRODUCER, NO_TIMESTAMP, ProducerId
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class TransactionLogKey:
    transactional_id: str = one("string", default="")


@protocol_message
class TransactionPartitions:
    topic: str = one("string", default="")
    partition_ids: tuple[int, ...] = many("int32", default=())


@protocol_message
class TransactionLogValue:
    producer_id: ProducerId = one("int64", default=NO_PRODUCER)
    previous_producer_id: ProducerId = one(
        "int64", default=NO_PRODUCER, since=1, tag=0, tag_since=1
    )
    next_producer_id: ProducerId = one("int64", default=NO_PRODUCER, since=1, tag=1, tag_since=1)
    producer_epoch: int = one("int16", default=0)
    next_producer_epoch: int = one("int16", default=NO_EPOCH, since=1, tag=3, tag_since=1)
    transaction_timeout_ms: int = one("int32", default=0)
    transaction_status: int = one("int8", default=0)
    transaction_partitions: tuple[TransactionPartitions, ...] | None = many(
        TransactionPartitions, default=None, nullable_since=0
    )
    transaction_last_update_timestamp_ms: int = one("int64", default=NO_TIMESTAMP)
    transaction_start_timestamp_ms: int = one("int64", default=NO_TIMESTAMP)
    client_transaction_version: int = one("int16", default=0, since=1, tag=2, tag_since=1)


@dataclass(frozen=True, slots=True)
class TransactionLogRecord:
    key: TransactionLogKey
    value: TransactionLogValue | None

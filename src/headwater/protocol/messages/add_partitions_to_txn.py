"""AddPartitionsToTxn: clients add partitions; brokers verify many (version 4)."""

from typing import ClassVar, Self

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import UnsupportedInVersion
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import the_only
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class AddPartitionsToTxnTopic:
    name: str = one("string", default="")
    partitions: tuple[int, ...] = many("int32", default=())


@protocol_message
class AddPartitionsToTxnRequestUpToV3:
    transactional_id: str = one("string", default="")
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int16", default=0)
    topics: tuple[AddPartitionsToTxnTopic, ...] = many(AddPartitionsToTxnTopic, default=())

    def lift(self) -> "AddPartitionsToTxnRequest":
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=self.topics,
        )
        return AddPartitionsToTxnRequest(transactions=(transaction,))

    @classmethod
    def lower(cls, message: "AddPartitionsToTxnRequest") -> Self:
        transaction = the_only(message.transactions)
        if transaction.verify_only:
            raise UnsupportedInVersion("verify_only does not exist up to version 3")
        return cls(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=transaction.topics,
        )


@protocol_message
class AddPartitionsToTxnTransaction:
    transactional_id: str = one("string", default="")
    producer_id: int = one("int64", default=0)
    producer_epoch: int = one("int16", default=0)
    verify_only: bool = one("bool", default=False)
    topics: tuple[AddPartitionsToTxnTopic, ...] = many(AddPartitionsToTxnTopic, default=())


@protocol_message
class AddPartitionsToTxnRequest:
    api: ClassVar = ApiKey.ADD_PARTITIONS_TO_TXN
    older: ClassVar = {3: AddPartitionsToTxnRequestUpToV3}

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = many(
        AddPartitionsToTxnTransaction, default=()
    )


@protocol_message
class AddPartitionsToTxnPartitionResult:
    partition_index: int = one("int32", default=0)
    partition_error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)


@protocol_message
class AddPartitionsToTxnTopicResult:
    name: str = one("string", default="")
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = many(
        AddPartitionsToTxnPartitionResult, default=()
    )


@protocol_message
class AddPartitionsToTxnResponseUpToV3:
    throttle_time_ms: int = one("int32", default=0)
    results_by_topic: tuple[AddPartitionsToTxnTopicResult, ...] = many(
        AddPartitionsToTxnTopicResult, default=()
    )

    def lift(self) -> "AddPartitionsToTxnResponse":
        """The transaction is not in the response; the caller knows it."""
        result = AddPartitionsToTxnResult(topic_results=self.results_by_topic)
        return AddPartitionsToTxnResponse(
            throttle_time_ms=self.throttle_time_ms, results_by_transaction=(result,)
        )

    @classmethod
    def lower(cls, message: "AddPartitionsToTxnResponse") -> Self:
        """A top-level error is omitted if each partition has it too."""
        if message.error_code and not message.results_by_transaction:
            raise UnsupportedInVersion("up to version 3 each partition has its own error")
        result = the_only(message.results_by_transaction)
        return cls(
            throttle_time_ms=message.throttle_time_ms,
            results_by_topic=result.topic_results,
        )


@protocol_message
class AddPartitionsToTxnResult:
    transactional_id: str = one("string", default="")
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = many(
        AddPartitionsToTxnTopicResult, default=()
    )


@protocol_message
class AddPartitionsToTxnResponse:
    api: ClassVar = ApiKey.ADD_PARTITIONS_TO_TXN
    older: ClassVar = {3: AddPartitionsToTxnResponseUpToV3}

    throttle_time_ms: int = one("int32", default=0)
    error_code: ErrorCode = one("error_code", default=ErrorCode.NONE)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = many(
        AddPartitionsToTxnResult, default=()
    )

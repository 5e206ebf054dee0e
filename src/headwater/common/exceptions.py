"""Exceptions of Headwater.

A broken invariant is an `assert`, and an ordinary rejection is a returned value; exceptions are for
failures that cannot be handled in place. An exception that can reach a client has the `ErrorCode`
that it is answered with.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode


class HeadwaterError(Exception):
    """Base class of all exceptions that Headwater raises deliberately."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class ProtocolError(HeadwaterError):
    """The peer sent malformed bytes; its connection is closed."""


class TooManyElements(ProtocolError):
    """The arrays of a message have more elements than its reader was allowed to read."""


class UnsupportedInVersion(HeadwaterError):
    """A message has a value that the requested version has no field for."""

    code = ErrorCode.UNSUPPORTED_VERSION


class ConnectionLost(HeadwaterError):
    """A connection failed or could not be opened; requests in flight are lost."""

    code = ErrorCode.NETWORK_EXCEPTION


class RequestTimedOut(ConnectionLost):
    """The peer did not respond in time, and its connection was closed."""

    code = ErrorCode.REQUEST_TIMED_OUT


class ConnectionRefused(ConnectionLost):
    """Connection refused: no process listens at the address."""


class TlsHandshakeFailed(ConnectionLost):
    """The TLS handshake failed, for lack of trust or a common protocol; do not retry."""


class AuthenticationFailed(ConnectionLost):
    """Authentication failed; do not retry."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnsupportedMechanism(ConnectionLost):
    """The peer does not support the SASL mechanism."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class SaslAuthenticationFailed(HeadwaterError):
    """A client failed to authenticate.

    The message is for logs; `client_message` goes to the client.
    """

    code = ErrorCode.SASL_AUTHENTICATION_FAILED

    def __init__(self, reason: str, *, client_message: str | None = None) -> None:
        super().__init__(reason)
        self.client_message = client_message


class HttpFetchFailed(HeadwaterError):
    """A document could not be fetched from another server."""

    def __init__(self, reason: str, *, is_retriable: bool) -> None:
        super().__init__(reason)
        self.is_retriable = is_retriable


class CannotListen(HeadwaterError):
    """A listener's address is in use, unknown or not local."""


class BrokerDidNotStart(HeadwaterError):
    """A test's broker could not be started; its log says why."""


class ServerUnavailable(HeadwaterError):
    """An external program cannot be run, or has exited."""


class InvalidSetting(HeadwaterError):
    """A setting is unknown or its value is not allowed."""

    code = ErrorCode.INVALID_CONFIG


class UnknownSetting(InvalidSetting):
    """A setting is unknown or not supported here."""


class StorageError(HeadwaterError):
    """The disk failed; its log directory goes offline."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class CorruptFile(StorageError):
    """A file beside the log is corrupt.

    Code that can rebuild the file catches this; otherwise it counts as a disk failure.
    """


class WrongLogDirectory(StorageError):
    """A log directory belongs to another node or another cluster."""


class DirectoryInUse(StorageError):
    """Another process, or this one already, has locked the log directory."""


class ControllerFenced(HeadwaterError):
    """A change was decided by a former controller, or on an outdated image."""

    code = ErrorCode.NOT_CONTROLLER


class WriteConflict(ControllerFenced):
    """A write of the current controller conflicts with the store."""


class StoreUnreachable(HeadwaterError):
    """The metadata store does not respond; the write may or may not have happened."""

    code = ErrorCode.REQUEST_TIMED_OUT


class ControllerUnreachable(StoreUnreachable):
    """No controller of the KRaft quorum registers this broker."""


class SessionExpired(StoreUnreachable):
    """The ZooKeeper session has expired; the request may be repeated in the next one."""


class DuplicateBrokerRegistration(HeadwaterError):
    """Another process is registered under the same broker id."""

    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class TooManyOpenFiles(HeadwaterError):
    """The process has no file descriptor left. The disk is fine; retry later."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class QueueFull(HeadwaterError):
    """A bounded queue of jobs or requests is full; retry later."""

    code = ErrorCode.REQUEST_TIMED_OUT


class UnreadableLog(HeadwaterError):
    """The files of one partition are corrupt; the rest of its log directory serves."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class UnreadableRecord(HeadwaterError):
    """A record of an internal topic is corrupt or too new, and is not loaded."""

    code = ErrorCode.NOT_COORDINATOR


class BatchError(HeadwaterError):
    """A record batch was rejected. The subclasses name the reason."""

    code = ErrorCode.CORRUPT_MESSAGE


class CorruptBatch(BatchError):
    """Not a valid record batch: bad length, wrong CRC, or a record beyond its end."""


class TruncatedBatch(CorruptBatch):
    """The buffer ends before the batch does.

    For Kafka, a request with an incomplete batch has no batch, which is an error (PV-1).
    """

    code = ErrorCode.INVALID_RECORD


class UnsupportedMagic(BatchError):
    """The message format is not magic 2, the only one that Kafka 4 accepts (PV-1)."""

    code = ErrorCode.INVALID_RECORD


class UnknownCodec(BatchError):
    """The attributes have an unknown compression codec."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class DecompressionBomb(BatchError):
    """The records would decompress to more than the limit."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class ValidationDeferred(HeadwaterError):
    """Validating the batch would block the event loop too long; it is not appended.

    Clients never see this: the broker prepares the batch on a thread and then appends it.
    """


class RecordValidationError(BatchError):
    """A batch was rejected because of some records, which are named if few."""

    def __init__(self, message: str, record_indexes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.record_indexes = record_indexes


class InvalidRecord(RecordValidationError):
    """A well-formed batch that breaks a rule of produce requests."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestamp(RecordValidationError):
    """A timestamp is outside the range that the topic allows, or of the wrong type."""

    code = ErrorCode.INVALID_TIMESTAMP


class BatchTooLarge(BatchError):
    """The batch exceeds max.message.bytes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class BatchListTooLarge(BatchError):
    """The append exceeds segment.bytes."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class OffsetOutOfRange(HeadwaterError):
    """The offset is below the log start or above the log end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class OutOfOrderSequenceNumber(HeadwaterError):
    """An idempotent producer's batch is out of sequence."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(HeadwaterError):
    """A producer with a newer epoch has fenced this one."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(HeadwaterError):
    """The batch does not fit the producer's open transaction."""

    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMapping(HeadwaterError):
    """The producer id does not belong to its transactional id."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class TransactionCoordinatorFenced(HeadwaterError):
    """A transaction marker came from a fenced coordinator."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class InvalidPattern(HeadwaterError):
    """Not a valid regular expression for a subscription."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION

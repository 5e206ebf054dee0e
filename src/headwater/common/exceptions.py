"""The exceptions of Headwater: their fault, the world's fault, never ours.

A broken invariant of our own is an `assert`, and an ordinary refusal is a value; only what
cannot be answered in place is raised. Each exception that a client may hear of carries the
`ErrorCode` that tells it.
"""

from typing import ClassVar

from headwater.common.error_codes import ErrorCode


class HeadwaterError(Exception):
    """Anything that Headwater raises on purpose."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class ProtocolError(HeadwaterError):
    """The peer sent bytes that cannot be read; its connection is closed."""


class UnsupportedInVersion(HeadwaterError):
    """A message says something that the version it shall be written in has no field for."""

    code = ErrorCode.UNSUPPORTED_VERSION


class ConnectionLost(HeadwaterError):
    """A connection broke, or never came about; what was under way on it has no answer."""

    code = ErrorCode.NETWORK_EXCEPTION


class RequestTimedOut(ConnectionLost):
    """The peer did not answer in time, and its connection was given up."""

    code = ErrorCode.REQUEST_TIMED_OUT


class PeerRefused(ConnectionLost):
    """Nobody listens at the address any more, or not yet: the host itself says so."""


class TlsRefused(ConnectionLost):
    """One end does not trust the other, or they share no way to speak; trying again is in vain."""


class LoginRefused(ConnectionLost):
    """The peer does not believe who we are; trying again would not help."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class MechanismRefused(ConnectionLost):
    """The peer wants another way of logging in."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class SaslRefused(HeadwaterError):
    """Somebody could not prove who they are. The text is for logs; `told` is for the peer."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED

    def __init__(self, reason: str, *, told: str | None = None) -> None:
        super().__init__(reason)
        self.told = told


class NotFetched(HeadwaterError):
    """A document of another server did not come. `may_pass` says whether asking again may help."""

    def __init__(self, reason: str, *, may_pass: bool) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


class CannotListen(HeadwaterError):
    """A listener's address is taken, unknown or not ours."""


class BrokerDidNotStart(HeadwaterError):
    """The broker that a test asked for could not be started; its log says why."""


class ServerUnavailable(HeadwaterError):
    """A program of others that was asked for cannot be run here, or has ended."""


class InvalidSetting(HeadwaterError):
    """A setting is unknown or its value is not allowed."""

    code = ErrorCode.INVALID_CONFIG


class UnknownSetting(InvalidSetting):
    """Nobody knows a setting of that name, or it cannot be obeyed here."""


class StorageError(HeadwaterError):
    """The disk failed us; the log directory it belongs to is fenced."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class CorruptFile(StorageError):
    """A file beside the log cannot be read as what it should be.

    Whoever can rebuild the file catches this and does so; to everyone else it is a failed disk.
    """


class WrongLogDirectory(StorageError):
    """A log directory that belongs to another node or another cluster."""


class DirectoryInUse(StorageError):
    """Another process, or this one a second time, has locked the log directory."""


class ControllerFenced(HeadwaterError):
    """A change was decided by a former controller, or on an image that is no longer the newest."""

    code = ErrorCode.NOT_CONTROLLER


class WriteContradicted(ControllerFenced):
    """A write of the current controller does not fit what the store has."""


class StoreUnreachable(HeadwaterError):
    """The home of the cluster's facts does not answer; what was asked for may come about or not."""

    code = ErrorCode.REQUEST_TIMED_OUT


class SessionExpired(StoreUnreachable):
    """The session with ZooKeeper has expired; the request may be repeated in the next one."""


class BrokerIdTaken(HeadwaterError):
    """Another process is up under the same broker id."""

    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class TooManyOpenFiles(HeadwaterError):
    """The process has no descriptor left. The disk is well, and the request may be sent again."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class TooMuchWork(HeadwaterError):
    """The queue of blocking work is full; the caller may try again later."""

    code = ErrorCode.REQUEST_TIMED_OUT


class UnreadableLog(HeadwaterError):
    """One partition's files make no sense; the rest of its directory serves."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class UnreadableRecord(HeadwaterError):
    """A record of an internal topic is damaged, or newer than this broker; it is not loaded."""

    code = ErrorCode.NOT_COORDINATOR


class BatchError(HeadwaterError):
    """A record batch was refused. The subclasses name the reason."""

    code = ErrorCode.CORRUPT_MESSAGE


class CorruptBatch(BatchError):
    """Bytes that are no record batch: a bad length, a wrong CRC, a record that overruns."""


class TruncatedBatch(CorruptBatch):
    """The buffer ends before the batch does.

    To Kafka a request with half a batch has none, which is one too few (PV-1).
    """

    code = ErrorCode.INVALID_RECORD


class UnsupportedMagic(BatchError):
    """A message format older than magic 2, which Kafka 4 no longer takes, or a newer one (PV-1)."""

    code = ErrorCode.INVALID_RECORD


class UnknownCodec(BatchError):
    """The attributes name a compression codec that does not exist."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class DecompressionBomb(BatchError):
    """The records would unpack to more than the limit."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class ValidationDeferred(HeadwaterError):
    """Validating the batch would hold the loop for too long; nothing was appended.

    No client sees this: the broker prepares the batch on a thread and appends it then.
    """


class RecordsRefused(BatchError):
    """A batch was refused for records in it; names those, unless there are too many to look at."""

    def __init__(self, message: str, record_indexes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.record_indexes = record_indexes


class InvalidRecord(RecordsRefused):
    """A well-formed batch that breaks a rule of produce requests."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestamp(RecordsRefused):
    """A timestamp outside the window that the topic allows, or of the wrong type."""

    code = ErrorCode.INVALID_TIMESTAMP


class BatchTooLarge(BatchError):
    """The batch exceeds max.message.bytes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class BatchListTooLarge(BatchError):
    """The append exceeds segment.bytes."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class OffsetOutOfRange(HeadwaterError):
    """The offset lies below the log's start or above its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class SequenceRefused(HeadwaterError):
    """An idempotent producer's batch does not follow its last one."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class ProducerEpochRefused(HeadwaterError):
    """A producer with a newer epoch has taken over."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class TransactionStateRefused(HeadwaterError):
    """The batch does not fit the producer's open transaction."""

    code = ErrorCode.INVALID_TXN_STATE


class ProducerMappingRefused(HeadwaterError):
    """A producer id is not the one that its transactional id has."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class CoordinatorFenced(HeadwaterError):
    """A transaction marker came from a coordinator that has been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class InvalidPattern(HeadwaterError):
    """Not a regular expression, or not one that topics can be subscribed to by."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION

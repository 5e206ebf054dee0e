"""Client exceptions: one class per error code, and a few that no broker sends.

    except errors.ProducerFenced: ...
    except errors.KafkaError as error:
        if error.is_retriable: ...

Note: `is_retriable` refers to the error code. The client has already retried such an error until
its timeout, so the application may try again later, but need not do so at once.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.client.error_messages import meaning
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, RequestTimedOut, TlsHandshakeFailed
from headwater.common.exceptions import InvalidSetting as InvalidSetting
from headwater.common.exceptions import UnknownSetting as UnknownSetting


class KafkaError(HeadwaterError):
    """Base class of all errors of the clients."""

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code.is_retriable


class KafkaTimeout(KafkaError, TimeoutError):
    """A client-side timeout: `max.block.ms`, `delivery.timeout.ms` or `timeout`."""

    code = ErrorCode.REQUEST_TIMED_OUT


class ClientClosed(KafkaError):
    """The client is closed, or was created before this process was forked."""


class IllegalState(KafkaError):
    """A call that is not possible now, such as a commit without a transaction."""


class InvalidArgument(KafkaError, TypeError, ValueError):
    """An argument has the wrong type or is out of range; nothing was done."""


class BufferExhausted(KafkaTimeout):
    """`buffer.memory` was full for `max.block.ms`."""


class SerializationFailed(KafkaError):
    """A serializer or deserializer failed for a key or value."""


class NoOffsetForPartition(KafkaError):
    """The partition has no committed offset, and `auto.offset.reset` is none."""


class LogTruncated(KafkaError):
    """The leader lost consumed records, and `auto.offset.reset` is none (KIP-320)."""


class CommitFailed(KafkaError):
    """The member is no longer in the group; its partitions may have a new owner."""


class SomeFailed(KafkaError):
    """Some items of a call about several items failed."""

    def __init__(self, results: Mapping[Any, Any], errors: Mapping[Any, KafkaError]) -> None:
        first = next(iter(errors.values()))
        super().__init__(f"{len(errors)} of {len(errors) + len(results)} failed; first: {first}")
        self.results = results
        self.errors = errors


class WokenUp(KafkaError):
    """A waiting call was ended by `wakeup`."""


class NetworkException(KafkaError):
    """The connection was lost before the response; the broker may have acted."""

    code = ErrorCode.NETWORK_EXCEPTION


class BrokerNotAvailable(KafkaError):
    """No broker could be reached."""

    code = ErrorCode.BROKER_NOT_AVAILABLE


class UnknownServerError(KafkaError):
    code = ErrorCode.UNKNOWN_SERVER_ERROR


class OffsetOutOfRange(KafkaError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessage(KafkaError):
    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicOrPartition(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class LeaderNotAvailable(KafkaError):
    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollower(KafkaError):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class RequestTimedOutByBroker(KafkaError):
    """The broker timed out, for example because too few replicas acknowledged in time."""

    code = ErrorCode.REQUEST_TIMED_OUT


class MessageTooLarge(KafkaError):
    code = ErrorCode.MESSAGE_TOO_LARGE


class OffsetMetadataTooLarge(KafkaError):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class CoordinatorLoadInProgress(KafkaError):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(KafkaError):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinator(KafkaError):
    code = ErrorCode.NOT_COORDINATOR


class InvalidTopic(KafkaError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class NotEnoughReplicas(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppend(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class InvalidRequiredAcks(KafkaError):
    code = ErrorCode.INVALID_REQUIRED_ACKS


class IllegalGeneration(KafkaError):
    code = ErrorCode.ILLEGAL_GENERATION


class InconsistentGroupProtocol(KafkaError):
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidGroupId(KafkaError):
    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberId(KafkaError):
    code = ErrorCode.UNKNOWN_MEMBER_ID


class InvalidSessionTimeout(KafkaError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT


class RebalanceInProgress(KafkaError):
    code = ErrorCode.REBALANCE_IN_PROGRESS


class TopicAuthorizationFailed(KafkaError):
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationFailed(KafkaError):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterAuthorizationFailed(KafkaError):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class InvalidTimestamp(KafkaError):
    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedSaslMechanism(KafkaError):
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class SaslAuthenticationFailed(KafkaError):
    """The broker rejected the credentials, or did not prove its identity (SCRAM)."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class ResourceNotFound(KafkaError):
    code = ErrorCode.RESOURCE_NOT_FOUND


class DuplicateResource(KafkaError):
    code = ErrorCode.DUPLICATE_RESOURCE


class UnacceptableCredential(KafkaError):
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL


class UnsupportedVersion(KafkaError):
    """The broker does not support a required version or feature of a request."""

    code = ErrorCode.UNSUPPORTED_VERSION


class TopicAlreadyExists(KafkaError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(KafkaError):
    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(KafkaError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidConfig(KafkaError):
    code = ErrorCode.INVALID_CONFIG


class NotController(KafkaError):
    code = ErrorCode.NOT_CONTROLLER


class InvalidRequest(KafkaError):
    code = ErrorCode.INVALID_REQUEST


class PolicyViolation(KafkaError):
    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceNumber(KafkaError):
    """Earlier batches of this producer are missing on the broker and may be lost."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(KafkaError):
    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMapping(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionTimeout(KafkaError):
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class ConcurrentTransactions(KafkaError):
    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionalIdAuthorizationFailed(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class KafkaStorageError(KafkaError):
    code = ErrorCode.KAFKA_STORAGE_ERROR


class UnknownProducerId(KafkaError):
    code = ErrorCode.UNKNOWN_PRODUCER_ID


class NonEmptyGroup(KafkaError):
    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFound(KafkaError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


class GroupSubscribedToTopic(KafkaError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class FencedInstanceId(KafkaError):
    """Another member has joined the group with this `group.instance.id`."""

    code = ErrorCode.FENCED_INSTANCE_ID


class InvalidRecord(KafkaError):
    code = ErrorCode.INVALID_RECORD


class UnstableOffsetCommit(KafkaError):
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT


class ProducerFenced(KafkaError):
    """A newer producer has the same `transactional.id`; this one must be closed."""

    code = ErrorCode.PRODUCER_FENCED


class UnknownTopicId(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_ID


class FencedMemberEpoch(KafkaError):
    code = ErrorCode.FENCED_MEMBER_EPOCH


class UnreleasedInstanceId(KafkaError):
    code = ErrorCode.UNRELEASED_INSTANCE_ID


class UnsupportedAssignor(KafkaError):
    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class StaleMemberEpoch(KafkaError):
    code = ErrorCode.STALE_MEMBER_EPOCH


class TransactionAbortable(KafkaError):
    """The transaction must be aborted; the producer can continue afterwards."""

    code = ErrorCode.TRANSACTION_ABORTABLE


class InvalidRegularExpression(KafkaError):
    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class DuplicateVoter(KafkaError):
    """The voter is already in the voter set of the KRaft quorum."""

    code = ErrorCode.DUPLICATE_VOTER


class VoterNotFound(KafkaError):
    """The voter set of the KRaft quorum has no voter with this id and directory id."""

    code = ErrorCode.VOTER_NOT_FOUND


class SslAuthenticationFailed(KafkaError):
    """A certificate is not trusted, or there is no common TLS version.

    Raised at once, as in Java's clients, because a retry cannot succeed.
    """


# Errors of the client itself, never created from an error code.
_OWN: Final = (
    KafkaTimeout,
    ClientClosed,
    IllegalState,
    InvalidArgument,
    SerializationFailed,
    NoOffsetForPartition,
    LogTruncated,
    CommitFailed,
    WokenUp,
    SomeFailed,
    SslAuthenticationFailed,
)
_BY_CODE: Final[dict[ErrorCode, type[KafkaError]]] = {
    each.code: each for each in KafkaError.__subclasses__() if each not in _OWN
}


def error_for(code: ErrorCode, message: str | None = None) -> KafkaError:
    """The exception for an error code. Creates a class for a code that has none."""
    assert code is not ErrorCode.NONE
    cls = _BY_CODE.get(code)
    if cls is None:
        name = "".join(word.capitalize() for word in code.name.split("_"))
        cls = _BY_CODE[code] = type(name, (KafkaError,), {"code": code})
    return cls(message or meaning(code))


_LOGIN: Final = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM)


def is_authentication_error(error: HeadwaterError) -> bool:
    """Whether the error is about authentication, so that retries are pointless."""
    return error.code in _LOGIN or isinstance(error, TlsHandshakeFailed | SslAuthenticationFailed)


def from_failure(failure: HeadwaterError) -> KafkaError:
    """The client exception for an error of a lower layer."""
    if isinstance(failure, KafkaError):
        return failure
    if isinstance(failure, RequestTimedOut):
        return NetworkException(f"no response before the timeout: {failure}")
    if isinstance(failure, TlsHandshakeFailed):
        return SslAuthenticationFailed(str(failure))
    return error_for(failure.code, str(failure))

"""Why the console does not do what it was asked for: an HTTP status, and one line for a person."""

from headwater.client.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    KafkaError,
    KafkaTimeout,
    NetworkException,
    SaslAuthenticationFailed,
    SerializationFailed,
    SomeFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from headwater.client.retrying import said_before
from headwater.client.schema_registry import RegistryUnreachable, SchemaNotFound
from headwater.model.failures import HeadwaterError
from headwater.web.guard import Forbidden

_GONE = (UnknownTopicOrPartition, GroupIdNotFound, SchemaNotFound)
_FORBIDDEN = (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    SaslAuthenticationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
_UNREACHABLE = (KafkaTimeout, BrokerNotAvailable, NetworkException)


class Refusal(HeadwaterError):
    """Nothing was done. `is_unreachable` if that is because the cluster does not answer."""

    def __init__(self, status: int, message: str, *, is_unreachable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.is_unreachable = is_unreachable


def bad_request(message: str) -> Refusal:
    return Refusal(400, message)


def not_found(what: str) -> Refusal:
    return Refusal(404, what)


def refusal_for(error: HeadwaterError) -> Refusal:
    """What a client raised, as an answer over HTTP."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Forbidden):
        return Refusal(403, str(error))
    if isinstance(error, SomeFailed):
        return refusal_for(next(iter(error.errors.values())))
    if isinstance(error, _GONE):
        return Refusal(404, str(error))
    if isinstance(error, _FORBIDDEN):
        return Refusal(403, str(error))
    if isinstance(error, RegistryUnreachable):
        return Refusal(502, str(error))
    if isinstance(error, SerializationFailed):
        return Refusal(400, str(error))
    if isinstance(error, _UNREACHABLE):
        return Refusal(503, str(said_before(error) or error), is_unreachable=True)
    if isinstance(error, KafkaError):
        return Refusal(409, str(error))
    return Refusal(400, str(error))

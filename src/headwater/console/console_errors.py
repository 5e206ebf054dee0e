"""Errors of the console: an HTTP status and one line for the user."""

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
from headwater.client.network.retries import last_kafka_error
from headwater.client.schema_registry import RegistryUnreachable, SchemaNotFound
from headwater.common.exceptions import HeadwaterError
from headwater.http_server.http_errors import HttpError

_NOT_FOUND = (UnknownTopicOrPartition, GroupIdNotFound, SchemaNotFound)
_FORBIDDEN = (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    SaslAuthenticationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
_UNREACHABLE = (KafkaTimeout, BrokerNotAvailable, NetworkException)


class ConsoleError(HttpError):
    """The request failed. `is_unreachable` if no broker answers."""

    def __init__(self, status: int, message: str, *, is_unreachable: bool = False) -> None:
        super().__init__(status, message)
        self.is_unreachable = is_unreachable


class FormAnswer(ConsoleError):
    """The answer to a form that only asks something; the form is shown again."""

    def __init__(self, message: str) -> None:
        super().__init__(200, message)


def bad_request(message: str) -> ConsoleError:
    return ConsoleError(400, message)


def not_found(what: str) -> ConsoleError:
    return ConsoleError(404, what)


def error_for(error: HeadwaterError) -> ConsoleError:
    """Map an exception to an HTTP error."""
    if isinstance(error, ConsoleError):
        return error
    if isinstance(error, HttpError):
        return ConsoleError(error.status, error.message)
    if isinstance(error, SomeFailed):
        return error_for(next(iter(error.errors.values())))
    if isinstance(error, _NOT_FOUND):
        return ConsoleError(404, str(error))
    if isinstance(error, _FORBIDDEN):
        return ConsoleError(403, str(error))
    if isinstance(error, RegistryUnreachable):
        return ConsoleError(502, str(error))
    if isinstance(error, SerializationFailed):
        return ConsoleError(400, str(error))
    if isinstance(error, _UNREACHABLE):
        return ConsoleError(503, str(last_kafka_error(error) or error), is_unreachable=True)
    if isinstance(error, KafkaError):
        return ConsoleError(409, str(error))
    return ConsoleError(400, str(error))

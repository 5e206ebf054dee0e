"""Errors of the REST API, with Confluent's error codes and messages."""

from typing import Final

from headwater.client.errors import (
    IllegalState,
    InvalidArgument,
    KafkaError,
    KafkaTimeout,
    SerializationFailed,
    SomeFailed,
    is_authentication_error,
)
from headwater.client.schema_registry import RegistryResponseError, RegistryUnreachable
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError, InvalidSetting
from headwater.http_server.http_errors import HttpError

_NOT_AUTHORIZED: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_NOT_FOUND: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_BAD_REQUEST: Final = (
    ErrorCode.DUPLICATE_RESOURCE,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_PRINCIPAL_TYPE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.SECURITY_DISABLED,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.TOPIC_DELETION_DISABLED,
    ErrorCode.UNSUPPORTED_VERSION,
)


class RestProxyError(HttpError):
    """A request is rejected; `error_code` is Confluent's, by default the HTTP status."""

    def __init__(self, status: int, message: str, error_code: int | None = None) -> None:
        super().__init__(status, message)
        self.error_code = status if error_code is None else error_code


def topic_not_found() -> RestProxyError:
    return RestProxyError(404, "Topic not found.", 40401)


def partition_not_found() -> RestProxyError:
    return RestProxyError(404, "Partition not found.", 40402)


def consumer_instance_not_found() -> RestProxyError:
    return RestProxyError(404, "Consumer instance not found.", 40403)


def format_mismatch() -> RestProxyError:
    return RestProxyError(
        406,
        "The requested embedded data format does not match the deserializer for this consumer "
        "instance",
        40601,
    )


def consumer_instance_exists() -> RestProxyError:
    return RestProxyError(
        409,
        "Consumer with specified consumer ID already exists in the specified consumer group.",
        40902,
    )


def illegal_state(reason: str) -> RestProxyError:
    return RestProxyError(409, f"Illegal state: {reason}", 40903)


def schema_missing(*, is_key: bool) -> RestProxyError:
    what = "key" if is_key else "value"
    message = f"Request includes {what}s but does not include {what} schema"
    return RestProxyError(422, message, 42201 if is_key else 42202)


def conversion_failed(reason: str) -> RestProxyError:
    return RestProxyError(422, f"Conversion of JSON to Object failed: {reason}", 42203)


def invalid_consumer_config(reason: str) -> RestProxyError:
    return RestProxyError(422, f"Invalid consumer configuration: {reason}", 42204)


def invalid_schema(reason: str) -> RestProxyError:
    return RestProxyError(422, f"Invalid schema: {reason}", 42205)


def invalid_payload(reason: str) -> RestProxyError:
    return RestProxyError(422, f"Payload error. {reason}", 42206)


def serialization_error(reason: str) -> RestProxyError:
    return RestProxyError(422, f"Error serializing message. {reason}", 42207)


def bad_request(reason: str) -> RestProxyError:
    return RestProxyError(400, f"Bad Request: {reason}")


def not_found() -> RestProxyError:
    return RestProxyError(404, "HTTP 404 Not Found")


def rest_error_for(error: HeadwaterError) -> RestProxyError:
    """Map an error of a client or of the HTTP server to a response."""
    match error:
        case RestProxyError():
            return error
        case HttpError():
            return RestProxyError(error.status, error.message)
        case SomeFailed():
            return rest_error_for(next(iter(error.errors.values())))
        case RegistryUnreachable():
            return RestProxyError(503, f"The schema registry does not answer: {error}")
        case RegistryResponseError():
            return serialization_error(str(error))
        case IllegalState():
            return illegal_state(str(error))
        case InvalidSetting():
            return invalid_consumer_config(str(error))
        case SerializationFailed():
            return RestProxyError(408, str(error), 40801)
        case InvalidArgument():
            return bad_request(str(error))
        case _:
            return _by_code(error)


def _by_code(error: HeadwaterError) -> RestProxyError:
    if is_authentication_error(error):
        return RestProxyError(401, str(error), 40101)
    if error.code in _NOT_AUTHORIZED:
        return RestProxyError(403, str(error), 40301)
    if error.code in _NOT_FOUND:
        return RestProxyError(404, "This server does not host this topic-partition.", 40403)
    if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return RestProxyError(404, str(error))
    if error.code in _BAD_REQUEST:
        return RestProxyError(400, str(error), 40002)
    is_retriable = isinstance(error, KafkaTimeout) or (
        isinstance(error, KafkaError) and error.is_retriable
    )
    return RestProxyError(500, f"Kafka error: {error}", 50003 if is_retriable else 50002)

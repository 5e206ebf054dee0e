"""Metadata: brokers, topics, partitions and their leaders (TO-6, TO-7).

A request that auto-creates topics waits for them and has them in its response, so that clients need
not retry. If one of them was deleted before, the response is Kafka's, UNKNOWN_TOPIC_OR_PARTITION,
while they are being created (`deleted_topics`).
"""

from collections.abc import Iterable
from typing import Final

from headwater.broker.handlers.cluster_authorization import authorized_cluster_operations
from headwater.broker.handlers.data.metadata_response import (
    NOT_REQUESTED,
    brokers_on,
    describe_topic,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.common.topic_names import topic_name_error
from headwater.controller.topic_creation import Results
from headwater.metadata.cluster_image import ClusterImage
from headwater.protocol.codec import Encoded
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headwater.security.authorization.authorizer import (
    CLUSTER,
    Operation,
    Resource,
    ResourceKind,
    operations_allowed,
)

_BY_ID_SINCE: Final = 12
_HIDDEN_ERRORS: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(
    broker: Broker, request: MetadataRequest, call: Call
) -> MetadataResponse | Encoded | None:
    if request.topics is None:
        return _about_all(broker, request, call)
    requested = _without_duplicates(request.topics)
    by_id = any(each.topic_id != NO_TOPIC_ID for each in requested)
    if by_id and call.version < _BY_ID_SINCE:
        reason = f"topic ids require Metadata version {_BY_ID_SINCE} or newer"
        return error_response(request, ApiError(ErrorCode.INVALID_REQUEST, reason))
    if any(each.name is None and each.topic_id == NO_TOPIC_ID for each in requested):
        reason = "each topic needs a name or an id"
        return error_response(request, ApiError(ErrorCode.INVALID_REQUEST, reason))
    missing = _missing(broker, requested, request, call)
    may_create_all = broker.is_allowed(call, Operation.CREATE, CLUSTER)
    errors = {
        name: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for name in missing
        if not may_create_all and not broker.is_authorized_for_topic(call, Operation.CREATE, name)
    }
    creatable = [name for name in missing if name not in errors and not topic_name_error(name)]
    if not creatable:
        return _about(broker, requested, request, call, errors)

    def created(results: Results) -> None:
        # Created topics are in the image by now; the others have an error.
        errors.update({each.name: each.error_code for each in results if each.error_code})
        call.answer(_about(broker, requested, request, call, errors))

    def failed(_: HeadwaterError) -> None:
        call.answer(_about(broker, requested, request, call, errors))

    if any(name in broker.deleted_topics for name in creatable):
        # Before they are created, which may happen synchronously.
        answer = _about(broker, requested, request, call, errors)
        broker.controller_access.create_topics(
            creatable, then=lambda _: None, on_error=lambda _: None
        )
        return answer
    broker.controller_access.create_topics(creatable, then=created, on_error=failed)
    return None


def error_response(request: MetadataRequest, error: ApiError) -> MetadataResponse:
    return MetadataResponse(
        error_code=error.code,
        topics=tuple(
            MetadataResponseTopic(
                error_code=error.code, name=each.name or "", topic_id=each.topic_id
            )
            for each in request.topics or ()
        ),
    )


def _without_duplicates(
    topics: tuple[MetadataRequestTopic, ...],
) -> tuple[MetadataRequestTopic, ...]:
    """Drop duplicates.

    If there are topic ids, topics by name are ignored, as in Kafka 4.1.
    """
    by_id = {each.topic_id: each for each in topics if each.topic_id != NO_TOPIC_ID}
    by_name = {each.name: each for each in topics}
    return tuple(by_id.values()) or tuple(by_name.values())


def _about_all(broker: Broker, request: MetadataRequest, call: Call) -> MetadataResponse | Encoded:
    image = broker.image
    seen = list(image.topics.values())
    if not broker.authorizer.allows_everything:
        seen = [
            each
            for each in seen
            if broker.is_allowed_for_topic(call, Operation.DESCRIBE, each.name)
        ]

    def make() -> MetadataResponse:
        topics = (describe_topic(image, topic, call.listener, call.version) for topic in seen)
        return _response(broker, _with_operations(broker, topics, request, call), request, call)

    asks_for_operations = (
        request.include_topic_authorized_operations or request.include_cluster_authorized_operations
    )
    if asks_for_operations or len(seen) < len(image.topics):
        return make()
    # The cached response is only for clients that may see all topics.
    return broker.metadata.about_all(image, call.listener, call.version, make)


def _about(
    broker: Broker,
    requested: tuple[MetadataRequestTopic, ...],
    request: MetadataRequest,
    call: Call,
    errors: dict[str, ErrorCode],
) -> MetadataResponse:
    image = broker.image
    topics = [_about_one(broker, image, each, call, errors) for each in requested]
    return _response(broker, _with_operations(broker, topics, request, call), request, call)


def _about_one(
    broker: Broker,
    image: ClusterImage,
    requested: MetadataRequestTopic,
    call: Call,
    errors: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    if requested.topic_id != NO_TOPIC_ID:
        return _about_id(broker, image, requested.topic_id, call)
    name = requested.name or ""
    topic = image.topics.get(name)
    if not broker.is_authorized_for_topic(call, Operation.DESCRIBE, name):
        # The response must not reveal whether the topic exists.
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    if topic is not None:
        return describe_topic(image, topic, call.listener, call.version)
    unknown = (
        ErrorCode.INVALID_TOPIC_EXCEPTION
        if topic_name_error(name)
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    return MetadataResponseTopic(error_code=errors.get(name, unknown), name=name)


def _about_id(
    broker: Broker, image: ClusterImage, topic_id: TopicId, call: Call
) -> MetadataResponseTopic:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    elif not broker.is_authorized_for_topic(call, Operation.DESCRIBE, topic.name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        return describe_topic(image, topic, call.listener, call.version)
    return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)


def _missing(
    broker: Broker,
    requested: tuple[MetadataRequestTopic, ...],
    request: MetadataRequest,
    call: Call,
) -> list[str]:
    """Return names of missing topics that auto-creation applies to."""
    if not request.allow_auto_topic_creation or not broker.settings.auto_create_topics_enable:
        return []
    topics = broker.image.topics
    return [
        each.name
        for each in requested
        if each.name
        and each.topic_id == NO_TOPIC_ID
        and each.name not in topics
        and broker.is_allowed_for_topic(call, Operation.DESCRIBE, each.name)
    ]


def _with_operations(
    broker: Broker,
    topics: Iterable[MetadataResponseTopic],
    request: MetadataRequest,
    call: Call,
) -> tuple[MetadataResponseTopic, ...]:
    """Set each topic's authorized operations, if requested and visible to the client."""
    if not request.include_topic_authorized_operations:
        return tuple(topics)
    return tuple(
        each
        if each.error_code in _HIDDEN_ERRORS
        else MetadataResponseTopic(
            error_code=each.error_code,
            name=each.name,
            topic_id=each.topic_id,
            is_internal=each.is_internal,
            partitions=each.partitions,
            topic_authorized_operations=operations_allowed(
                broker.authorizer,
                call.requester,
                Resource(ResourceKind.TOPIC, each.name or ""),
            ),
        )
        for each in topics
    )


def _response(
    broker: Broker,
    topics: tuple[MetadataResponseTopic, ...],
    request: MetadataRequest,
    call: Call,
) -> MetadataResponse:
    image = broker.image
    operations = NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        operations = authorized_cluster_operations(broker, call)
    return MetadataResponse(
        brokers=brokers_on(image, call.listener),
        cluster_id=image.cluster_id,
        controller_id=broker.controller_access.controller_id,
        topics=topics,
        cluster_authorized_operations=operations,
    )

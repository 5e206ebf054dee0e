"""OffsetFetch: committed offsets of one or more groups (GR-12).

Groups may belong to different shards, so a request is split and its responses joined. A topic that
the client may not describe gets an error if it was requested by name, and is left out of a response
about all topics.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from headwater.broker.handlers.groups.group_requests import (
    GatheredResponses,
    is_authorized_for_group,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID
from headwater.coordinator.group.offset_fetch import fetch_error_response
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headwater.security.authorization.authorizer import Operation

_IDS_SINCE: Final = 10
_NO_OFFSET: Final = -1


def handle(broker: Broker, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse | None:
    if not request.groups:
        return OffsetFetchResponse()

    def done(groups: Sequence[OffsetFetchResponseGroup]) -> None:
        call.answer(OffsetFetchResponse(groups=tuple(groups)))

    gathering = GatheredResponses(len(request.groups), done)
    for index, group in enumerate(request.groups):
        if is_authorized_for_group(broker, call, Operation.DESCRIBE, group.group_id):
            _ask(broker, call, request, group, partial(gathering.put, index))
        else:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            call.record_error(error)
            gathering.put(index, fetch_error_response(group, error, call.version))
    return None


def error_response(request: OffsetFetchRequest, error: ApiError) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=tuple(
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
            for group in request.groups
        )
    )


def _ask(
    broker: Broker,
    call: Call,
    request: OffsetFetchRequest,
    group: OffsetFetchRequestGroup,
    put: Callable[[OffsetFetchResponseGroup], None],
) -> None:
    """Fetch one group's offsets of the topics that the client may describe."""
    accepted_group, errors = group, list[OffsetFetchResponseTopics]()
    if group.topics is not None:
        named = [_with_name(broker, topic, call) for topic in group.topics]
        errors = [each for each in named if isinstance(each, OffsetFetchResponseTopics)]
        accepted = tuple(each for each in named if isinstance(each, OffsetFetchRequestTopics))
        accepted_group = replace(group, topics=accepted)

    def respond(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.record_error(outcome)
            put(fetch_error_response(group, outcome, call.version))
            return
        assert isinstance(outcome, OffsetFetchResponse)
        (found,) = outcome.groups
        if group.topics is None:
            found = replace(found, topics=_visible(broker, call, found.topics))
        put(replace(found, topics=(*found.topics, *errors)))

    broker.groups.handle_request(
        group.group_id, replace(request, groups=(accepted_group,)), call, respond
    )


def _with_name(
    broker: Broker, topic: OffsetFetchRequestTopics, call: Call
) -> OffsetFetchRequestTopics | OffsetFetchResponseTopics:
    """Resolve the topic's name from its id in newer versions; or return an error."""
    if call.version >= _IDS_SINCE:
        found = broker.image.topic_by_id(topic.topic_id)
        if found is None:
            return _error_result(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        topic = replace(topic, name=found.name)
    if not broker.is_authorized_for_topic(call, Operation.DESCRIBE, topic.name):
        call.record_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _error_result(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic


def _error_result(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=_NO_OFFSET, error_code=error
            )
            for index in topic.partition_indexes
        ),
    )


def _visible(
    broker: Broker, call: Call, topics: Sequence[OffsetFetchResponseTopics]
) -> tuple[OffsetFetchResponseTopics, ...]:
    """Drop topics that the client may not describe, or without an id if ids are used."""
    seen = (
        each for each in topics if broker.is_allowed_for_topic(call, Operation.DESCRIBE, each.name)
    )
    if call.version < _IDS_SINCE:
        return tuple(seen)
    known = broker.image.topics
    named = (
        replace(each, topic_id=known[each.name].topic_id if each.name in known else NO_TOPIC_ID)
        for each in seen
    )
    return tuple(each for each in named if each.topic_id != NO_TOPIC_ID)

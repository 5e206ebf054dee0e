"""OffsetCommit: commit a group's offsets, with a result per partition (GR-11).

Unauthorized topics, and topics and partitions that do not exist, are rejected here; the rest goes
to the group's shard. The response has each topic once, with all of its partitions.
"""

from collections.abc import Sequence
from dataclasses import replace

from headwater.broker.handlers.groups.group_requests import is_authorized_for_group, topic_error
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.coordinator.group.offset_commit import refused_commit
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.metadata.controller_result import ApiError
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from headwater.security.authorization.authorizer import Operation

_IDS_SINCE = 10


def handle(broker: Broker, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse | None:
    if not is_authorized_for_group(broker, call, Operation.READ, request.group_id):
        call.record_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return refused_commit(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    accepted: list[OffsetCommitRequestTopic] = []
    errors: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        named = _with_name(broker, topic, call)
        if isinstance(named, ErrorCode):
            call.record_error(named)
            errors += refused_commit(replace(request, topics=(topic,)), named).topics
            continue
        existing, missing = _split(broker, named)
        if missing is not None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            call.record_error(error)
            errors += refused_commit(replace(request, topics=(missing,)), error).topics
        if existing is not None:
            accepted.append(existing)
    if not accepted:
        return OffsetCommitResponse(topics=tuple(errors))
    is_changed = bool(errors) or call.version >= _IDS_SINCE
    accepted_request = replace(request, topics=tuple(accepted)) if is_changed else request

    def respond(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.record_error(outcome)
            outcome = refused_commit(accepted_request, outcome)
        assert isinstance(outcome, OffsetCommitResponse)
        call.answer(_merged(errors, outcome) if errors else outcome)

    broker.groups.ask(request.group_id, accepted_request, call, respond)
    return None


def error_response(request: OffsetCommitRequest, error: ApiError) -> OffsetCommitResponse:
    return refused_commit(request, error.code)


def _with_name(
    broker: Broker, topic: OffsetCommitRequestTopic, call: Call
) -> OffsetCommitRequestTopic | ErrorCode:
    """Resolve the topic's name from its id in newer versions; or return an error."""
    if call.version >= _IDS_SINCE:
        found = broker.image.topic_by_id(topic.topic_id)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic = replace(topic, name=found.name)
    return topic_error(broker, call, topic.name) or topic


def _split(
    broker: Broker, topic: OffsetCommitRequestTopic
) -> tuple[OffsetCommitRequestTopic | None, OffsetCommitRequestTopic | None]:
    """Split a topic into its existing and its missing partitions."""
    count = len(broker.image.topics[topic.name].partitions)
    if all(0 <= each.partition_index < count for each in topic.partitions):
        return topic, None
    existing = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
    missing = tuple(each for each in topic.partitions if each not in existing)
    return (
        replace(topic, partitions=existing) if existing else None,
        replace(topic, partitions=missing),
    )


def _merged(
    errors: Sequence[OffsetCommitResponseTopic], outcome: OffsetCommitResponse
) -> OffsetCommitResponse:
    topics: dict[tuple[str, TopicId], OffsetCommitResponseTopic] = {}
    for each in (*errors, *outcome.topics):
        before = topics.get((each.name, each.topic_id))
        partitions = each.partitions if before is None else before.partitions + each.partitions
        topics[each.name, each.topic_id] = replace(each, partitions=partitions)
    return replace(outcome, topics=tuple(topics.values()))

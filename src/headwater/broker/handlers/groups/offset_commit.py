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
        call.note_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return refused_commit(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        named = _named(broker, topic, call)
        if isinstance(named, ErrorCode):
            call.note_error(named)
            refused += refused_commit(replace(request, topics=(topic,)), named).topics
            continue
        there, missing = _parted(broker, named)
        if missing is not None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            call.note_error(error)
            refused += refused_commit(replace(request, topics=(missing,)), error).topics
        if there is not None:
            accepted.append(there)
    if not accepted:
        return OffsetCommitResponse(topics=tuple(refused))
    is_changed = bool(refused) or call.version >= _IDS_SINCE
    passed_on = replace(request, topics=tuple(accepted)) if is_changed else request

    def gathered(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.note_error(outcome)
            outcome = refused_commit(passed_on, outcome)
        assert isinstance(outcome, OffsetCommitResponse)
        call.answer(_merged(refused, outcome) if refused else outcome)

    broker.groups.ask(request.group_id, passed_on, call, gathered)
    return None


def error_response(request: OffsetCommitRequest, refusal: ApiError) -> OffsetCommitResponse:
    return refused_commit(request, refusal.code)


def _named(
    broker: Broker, topic: OffsetCommitRequestTopic, call: Call
) -> OffsetCommitRequestTopic | ErrorCode:
    """Resolve the topic's name from its id in newer versions; or return an error."""
    if call.version >= _IDS_SINCE:
        found = broker.image.topic_by_id(topic.topic_id)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic = replace(topic, name=found.name)
    return topic_error(broker, call, topic.name) or topic


def _parted(
    broker: Broker, topic: OffsetCommitRequestTopic
) -> tuple[OffsetCommitRequestTopic | None, OffsetCommitRequestTopic | None]:
    """Split a topic into its existing and its missing partitions."""
    count = len(broker.image.topics[topic.name].partitions)
    if all(0 <= each.partition_index < count for each in topic.partitions):
        return topic, None
    there = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
    missing = tuple(each for each in topic.partitions if each not in there)
    return (
        replace(topic, partitions=there) if there else None,
        replace(topic, partitions=missing),
    )


def _merged(
    refused: Sequence[OffsetCommitResponseTopic], outcome: OffsetCommitResponse
) -> OffsetCommitResponse:
    topics: dict[tuple[str, TopicId], OffsetCommitResponseTopic] = {}
    for each in (*refused, *outcome.topics):
        before = topics.get((each.name, each.topic_id))
        partitions = each.partitions if before is None else before.partitions + each.partitions
        topics[each.name, each.topic_id] = replace(each, partitions=partitions)
    return replace(outcome, topics=tuple(topics.values()))

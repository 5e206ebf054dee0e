"""OffsetCommit: commit a group's offsets, with a result per partition (GR-11).

Unauthorized topics, and topics and partitions that do not exist, are rejected here; the rest goes
to the group's shard. The response has each topic once, with all of its partitions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headwater.broker.handlers.groups.group_requests import is_authorized_for_group, topic_error
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.coordinator.group.offset_commit import commit_error_response
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headwater.protocol.stepwise_codec import write_in_steps
from headwater.security.authorization.authorizer import Operation

_IDS_SINCE = 10
_WHOLE_TOPICS = 100
_STEP_TOPICS = 100


def handle(broker: Broker, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse | None:
    if not is_authorized_for_group(broker, call, Operation.READ, request.group_id):
        call.record_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return commit_error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    commit = _Commit(broker, request, call)
    if len(request.topics) > _WHOLE_TOPICS:
        call.run_steps(commit.in_steps())
        return None
    for topic in request.topics:
        commit.check(topic)
    return commit.submit()


class _Commit:
    """Check every topic of a request; pass the accepted ones to the group's shard."""

    def __init__(self, broker: Broker, request: OffsetCommitRequest, call: Call) -> None:
        self._broker = broker
        self._request = request
        self._call = call
        self._accepted: list[OffsetCommitRequestTopic] = []
        self._errors: list[OffsetCommitResponseTopic] = []

    def in_steps(self) -> Iterator[None]:
        """Check a few topics per step; other connections are served in between."""
        for number, topic in enumerate(self._request.topics, 1):
            self.check(topic)
            if number % _STEP_TOPICS == 0:
                yield
        response = self.submit()
        if response is not None:
            body = yield from write_in_steps(self._call.complete(response), self._call.version)
            self._call.answer_body(body)

    def check(self, topic: OffsetCommitRequestTopic) -> None:
        named = _with_name(self._broker, topic, self._call)
        if isinstance(named, ErrorCode):
            self._reject(topic, named)
            return
        existing, missing = _split(self._broker, named)
        if missing is not None:
            self._reject(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if existing is not None:
            self._accepted.append(existing)

    def _reject(self, topic: OffsetCommitRequestTopic, error: ErrorCode) -> None:
        self._call.record_error(error)
        self._errors.append(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=error
                    )
                    for each in topic.partitions
                ),
            )
        )

    def submit(self) -> OffsetCommitResponse | None:
        """Return the response, or None if the shard answers."""
        request, errors, call = self._request, self._errors, self._call
        if not self._accepted:
            return OffsetCommitResponse(topics=tuple(errors))
        is_changed = bool(errors) or call.version >= _IDS_SINCE
        accepted_request = replace(request, topics=tuple(self._accepted)) if is_changed else request

        def respond(outcome: Outcome) -> None:
            if isinstance(outcome, ErrorCode):
                call.record_error(outcome)
                outcome = commit_error_response(accepted_request, outcome)
            assert isinstance(outcome, OffsetCommitResponse)
            call.answer(_merged(errors, outcome) if errors else outcome)

        self._broker.groups.handle_request(request.group_id, accepted_request, call, respond)
        return None


def error_response(request: OffsetCommitRequest, error: ApiError) -> OffsetCommitResponse:
    return commit_error_response(request, error.code)


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
    missing = tuple(each for each in topic.partitions if not 0 <= each.partition_index < count)
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

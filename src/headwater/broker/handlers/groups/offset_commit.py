"""OffsetCommit: a group's offsets, each partition for itself (GR-11).

Topics that the caller may not read, and topics and partitions that do not exist, are refused here;
the rest goes to the group's shard. A topic stands in the answer once, with all its partitions.
"""

from collections.abc import Iterator, Sequence
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
        call.note_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return refused_commit(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    commit = _Commit(broker, request, call)
    if len(request.topics) > _WHOLE_TOPICS:
        call.work(commit.in_steps())
        return None
    for topic in request.topics:
        commit.judge(topic)
    return commit.ask()


class _Commit:
    """One request: each of its topics is judged, then the shard is asked about the good ones."""

    def __init__(self, broker: Broker, request: OffsetCommitRequest, call: Call) -> None:
        self._broker = broker
        self._request = request
        self._call = call
        self._accepted: list[OffsetCommitRequestTopic] = []
        self._refused: list[OffsetCommitResponseTopic] = []

    def in_steps(self) -> Iterator[None]:
        """Judge a few topics at a time; other connections are served in between."""
        for number, topic in enumerate(self._request.topics, 1):
            self.judge(topic)
            if number % _STEP_TOPICS == 0:
                yield
        response = self.ask()
        if response is not None:
            body = yield from write_in_steps(self._call.complete(response), self._call.version)
            self._call.answer_body(body)

    def judge(self, topic: OffsetCommitRequestTopic) -> None:
        named = _named(self._broker, topic, self._call)
        if isinstance(named, ErrorCode):
            self._refuse(topic, named)
            return
        there, missing = _parted(self._broker, named)
        if missing is not None:
            self._refuse(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if there is not None:
            self._accepted.append(there)

    def _refuse(self, topic: OffsetCommitRequestTopic, error: ErrorCode) -> None:
        self._call.note_error(error)
        self._refused.append(
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

    def ask(self) -> OffsetCommitResponse | None:
        """The answer, or None where the shard gives it."""
        request, refused, call = self._request, self._refused, self._call
        if not self._accepted:
            return OffsetCommitResponse(topics=tuple(refused))
        is_changed = bool(refused) or call.version >= _IDS_SINCE
        passed_on = replace(request, topics=tuple(self._accepted)) if is_changed else request

        def gathered(outcome: Outcome) -> None:
            if isinstance(outcome, ErrorCode):
                call.note_error(outcome)
                outcome = refused_commit(passed_on, outcome)
            assert isinstance(outcome, OffsetCommitResponse)
            call.answer(_merged(refused, outcome) if refused else outcome)

        self._broker.groups.ask(request.group_id, passed_on, call, gathered)
        return None


def error_response(request: OffsetCommitRequest, refusal: ApiError) -> OffsetCommitResponse:
    return refused_commit(request, refusal.code)


def _named(
    broker: Broker, topic: OffsetCommitRequestTopic, call: Call
) -> OffsetCommitRequestTopic | ErrorCode:
    """The topic with its name, which newer clients leave out; or what is wrong with it."""
    if call.version >= _IDS_SINCE:
        found = broker.image.topic_by_id(topic.topic_id)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic = replace(topic, name=found.name)
    return topic_error(broker, call, topic.name) or topic


def _parted(
    broker: Broker, topic: OffsetCommitRequestTopic
) -> tuple[OffsetCommitRequestTopic | None, OffsetCommitRequestTopic | None]:
    """The topic with its partitions that are there, and with those that are not."""
    count = len(broker.image.topics[topic.name].partitions)
    if all(0 <= each.partition_index < count for each in topic.partitions):
        return topic, None
    there = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
    missing = tuple(each for each in topic.partitions if not 0 <= each.partition_index < count)
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

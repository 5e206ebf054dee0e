"""DescribeTopicPartitions: topics in pages, for admin tools (KIP-966).

Note: the cursor is the first partition of the next page, not the last one of this page. Topics are
sorted by name, regardless of the order in the request.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headwater.broker.handlers.data.metadata_response import (
    NOT_REQUESTED,
    leader_of,
    offline_replicas,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.common.topic_names import topic_name_error
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration, TopicImage
from headwater.metadata.internal_topics import INTERNAL_TOPICS
from headwater.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from headwater.security.authorization.authorizer import (
    Operation,
    Resource,
    ResourceKind,
    operations_allowed,
)

_FIRST: Final = Cursor()


def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    start = request.cursor or _FIRST
    names = sorted({each.name for each in request.topics} or set(broker.image.topics))
    is_cursor_invalid = (
        bool(request.topics) and request.cursor is not None and start.topic_name not in names
    )
    if start.partition_index < 0 or is_cursor_invalid:
        reason = "the cursor is not one of the requested topics"
        return error_response(request, ApiError(ErrorCode.INVALID_REQUEST, reason))
    page = _Page(broker, call, start, request.response_partition_limit)
    for name in names:
        if name < start.topic_name:
            continue
        if not page.add(name, is_named=bool(request.topics)):
            break
    return DescribeTopicPartitionsResponse(topics=tuple(page.topics), next_cursor=page.next_cursor)


def error_response(
    request: DescribeTopicPartitionsRequest, error: ApiError
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=tuple(_error_topic(each.name, error.code) for each in request.topics)
    )


class _Page:
    """The response under construction."""

    def __init__(self, broker: Broker, call: Call, start: Cursor, limit: int) -> None:
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None
        self._broker = broker
        self._call = call
        self._start = start
        self._remaining = max(1, min(limit, broker.settings.max_request_partition_size_limit))

    def add(self, name: str, *, is_named: bool) -> bool:
        """Add a topic up to the partition limit; return False when the page is full."""
        image = self._broker.image
        topic = image.topics.get(name)
        is_authorized = (
            self._broker.is_authorized_for_topic if is_named else self._broker.is_allowed_for_topic
        )
        if not is_authorized(self._call, Operation.DESCRIBE, name):
            if is_named:
                self.topics.append(_error_topic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            return True
        error = _topic_error(name, topic)
        if error is not None:
            # A request for all topics only shows topics that the client may describe.
            if is_named:
                self._put(name, error=error)
            return True
        assert topic is not None
        if not self._remaining:
            self.next_cursor = Cursor(topic_name=name, partition_index=0)
            return False
        first = self._start.partition_index if name == self._start.topic_name else 0
        end = min(len(topic.partitions), first + self._remaining)
        partitions = tuple(_described(image, topic, range(first, end), self._call.listener))
        self._put(name, topic=topic, partitions=partitions)
        self._remaining -= len(partitions)
        if end < len(topic.partitions):
            self.next_cursor = Cursor(topic_name=name, partition_index=end)
            return False
        return True

    def _put(
        self,
        name: str,
        *,
        error: ErrorCode = ErrorCode.NONE,
        topic: TopicImage | None = None,
        partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = (),
    ) -> None:
        broker, resource = self._broker, Resource(ResourceKind.TOPIC, name)
        described = DescribeTopicPartitionsResponseTopic(
            error_code=error,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            partitions=partitions,
            topic_authorized_operations=operations_allowed(
                broker.authorizer, self._call.requester, resource
            ),
        )
        if topic is not None:
            described = replace(described, topic_id=topic.topic_id)
        self.topics.append(described)


def _topic_error(name: str, topic: TopicImage | None) -> ErrorCode | None:
    if topic is not None:
        return None
    if topic_name_error(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _error_topic(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    """Return only the name and the error."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=NOT_REQUESTED
    )


def _described(
    image: ClusterImage, topic: TopicImage, numbers: range, listener: str
) -> Iterator[DescribeTopicPartitionsResponsePartition]:
    for number in numbers:
        partition: PartitionRegistration = topic.partitions[number]
        leader, error = leader_of(image, partition, listener)
        yield DescribeTopicPartitionsResponsePartition(
            error_code=error,
            partition_index=number,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            eligible_leader_replicas=partition.elr,
            last_known_elr=partition.last_known_elr,
            offline_replicas=offline_replicas(image, partition, TopicPartition(topic.name, number)),
        )

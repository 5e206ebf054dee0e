"""Decide DeleteTopics (TO-4) and CreatePartitions (TO-5)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.common.ports import Random
from headwater.controller.replica_placer import assignment_error, place
from headwater.controller.topic_creation import LARGEST_REQUEST, new_partition
from headwater.metadata.changes import (
    MetadataChange,
    PartitionsAdded,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import ClusterImage, TopicImage
from headwater.metadata.controller_result import OVER_QUOTA, ControllerResult, Spend, unlimited
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headwater.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAuthorization:
    """What the client is authorized to do, by topic name."""

    may_describe: Callable[[str], bool]
    may_delete: Callable[[str], bool]


def delete_topics(
    image: ClusterImage,
    request: DeleteTopicsRequest,
    authorization: TopicAuthorization,
    spend: Spend = unlimited,
) -> ControllerResult[tuple[DeletableTopicResult, ...]]:
    """Delete topics by name or id, except topics named twice.

    In a cluster this starts the deletion, and `topic_deletion` completes it; the response waits for
    that. Deleting a topic that is already being deleted is no error.
    """
    changes: list[MetadataChange] = []
    results = []
    times = Counter(request.topics)
    found = {
        requested: _to_delete(image, requested, times[requested], authorization)
        for requested in times
    }
    ways = Counter(each.name for each in found.values() if isinstance(each, TopicImage))
    for requested, judged in found.items():
        outcome = judged
        if isinstance(outcome, TopicImage) and ways[outcome.name] == 1:
            outcome = found[requested] = _within_quota(outcome, spend)
        if isinstance(outcome, ApiError):
            results.append(
                DeletableTopicResult(
                    name=requested.name,
                    topic_id=requested.topic_id,
                    error_code=outcome.code,
                    error_message=outcome.reason,
                )
            )
        elif ways[outcome.name] == 1:
            if image.is_standalone:
                changes.append(TopicDeleted(outcome.name))
            elif not outcome.is_deleting:
                changes.append(TopicDeletionBegun(outcome.name))
            results.append(DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id))
        elif requested.name is not None:
            results.append(_named_and_by_id(outcome))
    deleting = [each.topic_id for each in found.values() if isinstance(each, TopicImage)]
    if image.is_standalone or not deleting:
        return ControllerResult(changes, tuple(results))
    return ControllerResult(changes, tuple(results), until=partial(_are_deleted, deleting))


def create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, rng: Random, spend: Spend = unlimited
) -> ControllerResult[tuple[CreatePartitionsTopicResult, ...]]:
    """Decide each topic on its own; the partition limit applies to the whole request."""
    changes: list[MetadataChange] = []
    results = []
    times = Counter(topic.name for topic in request.topics)
    room = LARGEST_REQUEST
    for requested in {topic.name: topic for topic in request.topics}.values():
        outcome: PartitionsAdded | ApiError
        if times[requested.name] > 1:
            reason = f"topic {requested.name} is in the request more than once"
            outcome = ApiError(ErrorCode.INVALID_REQUEST, reason)
        else:
            outcome = _more_partitions(image, requested, room, rng)
        if isinstance(outcome, PartitionsAdded) and not request.validate_only:
            outcome = outcome if spend(len(outcome.partitions)) else OVER_QUOTA
        if isinstance(outcome, ApiError):
            results.append(
                CreatePartitionsTopicResult(
                    name=requested.name, error_code=outcome.code, error_message=outcome.reason
                )
            )
            continue
        room -= len(outcome.partitions)
        changes.append(outcome)
        results.append(CreatePartitionsTopicResult(name=requested.name))
    return ControllerResult(() if request.validate_only else changes, tuple(results))


def _are_deleted(topic_ids: Sequence[TopicId], image: ClusterImage) -> bool:
    return not any(image.topic_by_id(each) for each in topic_ids)


def _to_delete(
    image: ClusterImage, requested: DeleteTopicState, times: int, rights: TopicAuthorization
) -> TopicImage | ApiError:
    has_id = requested.topic_id != NO_TOPIC_ID
    if has_id == (requested.name is not None):
        given = "both" if has_id else "neither"
        reason = f"give either the name or the id of a topic to delete, not {given}"
        return ApiError(ErrorCode.INVALID_REQUEST, reason)
    if times > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "the topic is in the request more than once")
    if requested.name is None:
        topic = image.topic_by_id(requested.topic_id)
        missing = ApiError(
            ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {requested.topic_id} does not exist"
        )
    else:
        topic = image.topics.get(requested.name)
        missing = ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {requested.name} does not exist"
        )
        if not rights.may_describe(requested.name):
            # The error does not reveal whether the topic exists.
            return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    if topic is None:
        return missing
    if not rights.may_delete(topic.name):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    return topic


def _within_quota(topic: TopicImage, spend: Spend) -> TopicImage | ApiError:
    """A deletion that has already begun is not charged again."""
    return topic if topic.is_deleting or spend(len(topic.partitions)) else OVER_QUOTA


def _named_and_by_id(topic: TopicImage) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="the request names the topic both by name and by id",
    )


def _more_partitions(
    image: ClusterImage, requested: CreatePartitionsTopic, room: int, rng: Random
) -> PartitionsAdded | ApiError:
    topic = image.topics.get(requested.name)
    if topic is None or topic.is_deleting:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    added = requested.count - len(topic.partitions)
    if added <= 0:
        reason = (
            f"topic {requested.name} has {len(topic.partitions)} partitions; "
            f"the new number must be larger, not {requested.count}"
        )
        return ApiError(ErrorCode.INVALID_PARTITIONS, reason)
    if added > room:
        reason = f"a request may create at most {LARGEST_REQUEST} partitions"
        return ApiError(ErrorCode.POLICY_VIOLATION, reason)
    factor = len(topic.partitions[0].replicas)
    if requested.assignments is not None:
        by_hand = [each.broker_ids for each in requested.assignments]
        return _checked(image, topic, by_hand, added, factor)
    brokers = image.staying_brokers
    if factor > len(brokers):
        reason = f"replication factor {factor} exceeds the number of live brokers ({len(brokers)})"
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    placed = place(brokers, partition_count=added, replication_factor=factor, rng=rng)
    return PartitionsAdded(topic.name, tuple(new_partition(each, brokers) for each in placed))


def _checked(
    image: ClusterImage,
    topic: TopicImage,
    by_hand: Sequence[Sequence[int]],
    added: int,
    factor: int,
) -> PartitionsAdded | ApiError:
    if len(by_hand) != added:
        reason = f"the request adds {added} partitions but assigns {len(by_hand)}"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    for replicas in by_hand:
        bad = assignment_error(replicas, image.brokers, factor)
        if bad:
            return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad)
    return PartitionsAdded(
        topic.name, tuple(new_partition(each, image.brokers) for each in by_hand)
    )

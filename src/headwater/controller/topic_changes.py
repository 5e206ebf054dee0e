"""Deleting topics (TO-4) and giving them more partitions (TO-5)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.common.ports import Random
from headwater.controller.replica_placer import place, why_bad_assignment
from headwater.controller.topic_creation import LARGEST_REQUEST, new_partition
from headwater.metadata.changes import (
    MetadataChange,
    PartitionsAdded,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import ClusterImage, TopicImage
from headwater.metadata.controller_result import (
    OVER_QUOTA,
    ApiError,
    ControllerResult,
    Spend,
    unlimited,
)
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
    """What whoever asks for deletions may do, by topic name."""

    may_describe: Callable[[str], bool]
    may_delete: Callable[[str], bool]


def delete_topics(
    image: ClusterImage,
    request: DeleteTopicsRequest,
    rights: TopicAuthorization,
    spend: Spend = unlimited,
) -> ControllerResult[tuple[DeletableTopicResult, ...]]:
    """By name or by id. A topic that is named twice, in whichever way, is not deleted.

    Where there are other brokers, this is the beginning of a deletion, and `topic_deletion` has the
    rest; the answer waits for it. To ask for what has begun already is no error.
    """
    changes: list[MetadataChange] = []
    results = []
    times = Counter(request.topics)
    found = {asked: _to_delete(image, asked, times[asked], rights) for asked in times}
    ways = Counter(each.name for each in found.values() if isinstance(each, TopicImage))
    for asked, judged in found.items():
        outcome = judged
        if isinstance(outcome, TopicImage) and ways[outcome.name] == 1:
            outcome = found[asked] = _within_quota(outcome, spend)
        if isinstance(outcome, ApiError):
            results.append(
                DeletableTopicResult(
                    name=asked.name,
                    topic_id=asked.topic_id,
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
        elif asked.name is not None:
            results.append(_named_and_by_id(outcome))
    going = [each.topic_id for each in found.values() if isinstance(each, TopicImage)]
    if image.is_standalone or not going:
        return ControllerResult(changes, tuple(results))
    return ControllerResult(changes, tuple(results), until=partial(_are_gone, going))


def create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, rng: Random, spend: Spend = unlimited
) -> ControllerResult[tuple[CreatePartitionsTopicResult, ...]]:
    """Each topic of the request stands for itself, but together they are bounded."""
    changes: list[MetadataChange] = []
    results = []
    times = Counter(topic.name for topic in request.topics)
    room = LARGEST_REQUEST
    for asked in {topic.name: topic for topic in request.topics}.values():
        outcome: PartitionsAdded | ApiError
        if times[asked.name] > 1:
            reason = f"topic {asked.name} stands more than once in the request"
            outcome = ApiError(ErrorCode.INVALID_REQUEST, reason)
        else:
            outcome = _more_partitions(image, asked, room, rng)
        if isinstance(outcome, PartitionsAdded) and not request.validate_only:
            outcome = outcome if spend(len(outcome.partitions)) else OVER_QUOTA
        if isinstance(outcome, ApiError):
            results.append(
                CreatePartitionsTopicResult(
                    name=asked.name, error_code=outcome.code, error_message=outcome.reason
                )
            )
            continue
        room -= len(outcome.partitions)
        changes.append(outcome)
        results.append(CreatePartitionsTopicResult(name=asked.name))
    return ControllerResult(() if request.validate_only else changes, tuple(results))


def _are_gone(topic_ids: Sequence[TopicId], image: ClusterImage) -> bool:
    return not any(image.topic_by_id(each) for each in topic_ids)


def _to_delete(
    image: ClusterImage, asked: DeleteTopicState, times: int, rights: TopicAuthorization
) -> TopicImage | ApiError:
    has_id = asked.topic_id != NO_TOPIC_ID
    if has_id == (asked.name is not None):
        how = "by both" if has_id else "by neither"
        reason = f"a topic to delete is given by its name or by its id, and not {how}"
        return ApiError(ErrorCode.INVALID_REQUEST, reason)
    if times > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "the topic stands more than once in the request")
    if asked.name is None:
        topic = image.topic_by_id(asked.topic_id)
        missing = ApiError(
            ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {asked.topic_id}"
        )
    else:
        topic = image.topics.get(asked.name)
        missing = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name}")
        if not rights.may_describe(asked.name):
            # Nor do they hear whether it is there.
            return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    if topic is None:
        return missing
    if not rights.may_delete(topic.name):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    return topic


def _within_quota(topic: TopicImage, spend: Spend) -> TopicImage | ApiError:
    """What has begun already is not paid for again."""
    return topic if topic.is_deleting or spend(len(topic.partitions)) else OVER_QUOTA


def _named_and_by_id(topic: TopicImage) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="the topic is given by its name, and also by its id",
    )


def _more_partitions(
    image: ClusterImage, asked: CreatePartitionsTopic, room: int, rng: Random
) -> PartitionsAdded | ApiError:
    topic = image.topics.get(asked.name)
    if topic is None or topic.is_deleting:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    added = asked.count - len(topic.partitions)
    if added <= 0:
        reason = (
            f"topic {asked.name} can only grow: partitions now {len(topic.partitions)}, "
            f"asked for {asked.count}"
        )
        return ApiError(ErrorCode.INVALID_PARTITIONS, reason)
    if added > room:
        reason = f"a request may make {LARGEST_REQUEST} partitions, this one asks for more"
        return ApiError(ErrorCode.POLICY_VIOLATION, reason)
    factor = len(topic.partitions[0].replicas)
    if asked.assignments is not None:
        by_hand = [each.broker_ids for each in asked.assignments]
        return _checked(image, topic, by_hand, added, factor)
    brokers = image.staying_brokers
    if factor > len(brokers):
        reason = f"replication factor {factor} is not possible, brokers: {len(brokers)}"
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    placed = place(brokers, partition_count=added, replication_factor=factor, rng=rng)
    return PartitionsAdded(topic.name, tuple(map(new_partition, placed)))


def _checked(
    image: ClusterImage,
    topic: TopicImage,
    by_hand: Sequence[Sequence[int]],
    added: int,
    factor: int,
) -> PartitionsAdded | ApiError:
    if len(by_hand) != added:
        reason = f"{added} partitions are added, but {len(by_hand)} are assigned"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    for replicas in by_hand:
        bad = why_bad_assignment(replicas, image.brokers, factor)
        if bad:
            return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad)
    return PartitionsAdded(topic.name, tuple(map(new_partition, by_hand)))

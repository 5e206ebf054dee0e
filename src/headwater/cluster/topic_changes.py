"""Deleting topics (TO-4) and giving them more partitions (TO-5)."""

from collections import Counter
from collections.abc import Sequence

from headwater.cluster.decision import Decision, Refusal
from headwater.cluster.effective import StaticConfig
from headwater.cluster.facts import Fact, PartitionsAdded, TopicDeleted
from headwater.cluster.image import ClusterImage, Topic
from headwater.cluster.placement import place, why_bad_assignment
from headwater.cluster.topic_creation import LARGEST_REQUEST, new_partition
from headwater.model.errors import ErrorCode
from headwater.model.ids import NO_TOPIC_ID
from headwater.model.ports import Dice
from headwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headwater.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)


def delete_topics(
    image: ClusterImage, request: DeleteTopicsRequest, static: StaticConfig
) -> Decision[tuple[DeletableTopicResult, ...]]:
    """By name or by id. A topic that is named twice, in whichever way, is not deleted."""
    facts: list[Fact] = []
    results = []
    found = [_to_delete(image, asked, static) for asked in request.topics]
    times = Counter(each.name for each in found if isinstance(each, Topic))
    for asked, outcome in zip(request.topics, found, strict=True):
        if isinstance(outcome, Topic) and times[outcome.name] > 1:
            reason = f"topic {outcome.name} stands more than once in the request"
            outcome = Refusal(ErrorCode.INVALID_REQUEST, reason)
        if isinstance(outcome, Refusal):
            results.append(
                DeletableTopicResult(
                    name=asked.name,
                    topic_id=asked.topic_id,
                    error_code=outcome.code,
                    error_message=outcome.reason,
                )
            )
            continue
        facts.append(TopicDeleted(outcome.name))
        results.append(DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id))
    return Decision(facts, tuple(results))


def create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, dice: Dice
) -> Decision[tuple[CreatePartitionsTopicResult, ...]]:
    """Each topic of the request stands for itself, but together they are bounded."""
    facts: list[Fact] = []
    results = []
    times = Counter(topic.name for topic in request.topics)
    room = LARGEST_REQUEST
    for asked in {each.name: each for each in request.topics}.values():
        if times[asked.name] > 1:
            reason = f"topic {asked.name} stands more than once in the request"
            outcome: PartitionsAdded | Refusal = Refusal(ErrorCode.INVALID_REQUEST, reason)
        else:
            outcome = _more_partitions(image, asked, room, dice)
        if isinstance(outcome, Refusal):
            results.append(
                CreatePartitionsTopicResult(
                    name=asked.name, error_code=outcome.code, error_message=outcome.reason
                )
            )
            continue
        room -= len(outcome.partitions)
        facts.append(outcome)
        results.append(CreatePartitionsTopicResult(name=asked.name))
    return Decision(() if request.validate_only else facts, tuple(results))


def _to_delete(
    image: ClusterImage, asked: DeleteTopicState, static: StaticConfig
) -> Topic | Refusal:
    if not static.settings.delete_topic_enable:
        return Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    has_id = asked.topic_id != NO_TOPIC_ID
    if has_id == (asked.name is not None):
        reason = "a topic to delete is given by its name or by its id, and not by both"
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    if asked.name is None:
        by_id = image.topic_by_id(asked.topic_id)
        reason = f"there is no topic with id {asked.topic_id}"
        return by_id or Refusal(ErrorCode.UNKNOWN_TOPIC_ID, reason)
    by_name = image.topics.get(asked.name)
    reason = f"there is no topic {asked.name}"
    return by_name or Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)


def _more_partitions(
    image: ClusterImage, asked: CreatePartitionsTopic, room: int, dice: Dice
) -> PartitionsAdded | Refusal:
    topic = image.topics.get(asked.name)
    if topic is None:
        reason = f"there is no topic {asked.name}"
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    added = asked.count - len(topic.partitions)
    if added <= 0:
        reason = (
            f"topic {asked.name} has {len(topic.partitions)} partitions, more are not asked for"
        )
        return Refusal(ErrorCode.INVALID_PARTITIONS, reason)
    if added > room:
        reason = f"a request may make {LARGEST_REQUEST} partitions, this one asks for more"
        return Refusal(ErrorCode.POLICY_VIOLATION, reason)
    factor = len(topic.partitions[0].replicas)
    if asked.assignments:
        by_hand = [each.broker_ids for each in asked.assignments]
        return _checked(image, topic, by_hand, added, factor)
    if factor > len(image.brokers):
        reason = f"{factor} replicas cannot be placed on {len(image.brokers)} broker(s)"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    placed = place(image.brokers, partition_count=added, replication_factor=factor, dice=dice)
    return PartitionsAdded(topic.name, tuple(map(new_partition, placed)))


def _checked(
    image: ClusterImage, topic: Topic, by_hand: Sequence[Sequence[int]], added: int, factor: int
) -> PartitionsAdded | Refusal:
    if len(by_hand) != added:
        reason = f"{added} partitions are added, but {len(by_hand)} are assigned"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    for replicas in by_hand:
        bad = why_bad_assignment(replicas, image.brokers, factor)
        if bad:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad)
    return PartitionsAdded(topic.name, tuple(map(new_partition, by_hand)))

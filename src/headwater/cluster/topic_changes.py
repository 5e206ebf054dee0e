"""Deleting topics (TO-4) and giving them more partitions (TO-5)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.cluster.decision import OVER_QUOTA, Decision, Refusal, Spend, unlimited
from headwater.cluster.facts import Fact, PartitionsAdded, TopicDeleted, TopicDeletionBegun
from headwater.cluster.image import ClusterImage, Topic
from headwater.cluster.placement import place, why_bad_assignment
from headwater.cluster.topic_creation import LARGEST_REQUEST, new_partition
from headwater.model.errors import ErrorCode
from headwater.model.ids import NO_TOPIC_ID, TopicId
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What whoever asks for deletions may do, by topic name."""

    may_describe: Callable[[str], bool]
    may_delete: Callable[[str], bool]


def delete_topics(
    image: ClusterImage, request: DeleteTopicsRequest, rights: Rights, spend: Spend = unlimited
) -> Decision[tuple[DeletableTopicResult, ...]]:
    """By name or by id. A topic that is named twice, in whichever way, is not deleted.

    Where there are other brokers, this is the beginning of a deletion, and `topic_deletion` has the
    rest; the answer waits for it. To ask for what has begun already is no error.
    """
    facts: list[Fact] = []
    results = []
    times = Counter(request.topics)
    found = {asked: _to_delete(image, asked, times[asked], rights) for asked in times}
    ways = Counter(each.name for each in found.values() if isinstance(each, Topic))
    for asked, judged in found.items():
        outcome = judged
        if isinstance(outcome, Topic) and ways[outcome.name] == 1:
            outcome = found[asked] = _within_quota(outcome, spend)
        if isinstance(outcome, Refusal):
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
                facts.append(TopicDeleted(outcome.name))
            elif not outcome.is_deleting:
                facts.append(TopicDeletionBegun(outcome.name))
            results.append(DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id))
        elif asked.name is not None:
            results.append(_named_and_by_id(outcome))
    going = [each.topic_id for each in found.values() if isinstance(each, Topic)]
    if image.is_standalone or not going:
        return Decision(facts, tuple(results))
    return Decision(facts, tuple(results), until=partial(_are_gone, going))


def create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, dice: Dice, spend: Spend = unlimited
) -> Decision[tuple[CreatePartitionsTopicResult, ...]]:
    """Each topic of the request stands for itself, but together they are bounded."""
    facts: list[Fact] = []
    results = []
    times = Counter(topic.name for topic in request.topics)
    room = LARGEST_REQUEST
    for asked in {topic.name: topic for topic in request.topics}.values():
        outcome: PartitionsAdded | Refusal
        if times[asked.name] > 1:
            reason = f"topic {asked.name} stands more than once in the request"
            outcome = Refusal(ErrorCode.INVALID_REQUEST, reason)
        else:
            outcome = _more_partitions(image, asked, room, dice)
        if isinstance(outcome, PartitionsAdded) and not request.validate_only:
            outcome = outcome if spend(len(outcome.partitions)) else OVER_QUOTA
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


def _are_gone(topic_ids: Sequence[TopicId], image: ClusterImage) -> bool:
    return not any(image.topic_by_id(each) for each in topic_ids)


def _to_delete(
    image: ClusterImage, asked: DeleteTopicState, times: int, rights: Rights
) -> Topic | Refusal:
    has_id = asked.topic_id != NO_TOPIC_ID
    if has_id == (asked.name is not None):
        how = "by both" if has_id else "by neither"
        reason = f"a topic to delete is given by its name or by its id, and not {how}"
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    if times > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "the topic stands more than once in the request")
    if asked.name is None:
        topic = image.topic_by_id(asked.topic_id)
        missing = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {asked.topic_id}")
    else:
        topic = image.topics.get(asked.name)
        missing = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name}")
        if not rights.may_describe(asked.name):
            # Nor do they hear whether it is there.
            return Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    if topic is None:
        return missing
    if not rights.may_delete(topic.name):
        return Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    return topic


def _within_quota(topic: Topic, spend: Spend) -> Topic | Refusal:
    """What has begun already is not paid for again."""
    return topic if topic.is_deleting or spend(len(topic.partitions)) else OVER_QUOTA


def _named_and_by_id(topic: Topic) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="the topic is given by its name, and also by its id",
    )


def _more_partitions(
    image: ClusterImage, asked: CreatePartitionsTopic, room: int, dice: Dice
) -> PartitionsAdded | Refusal:
    topic = image.topics.get(asked.name)
    if topic is None or topic.is_deleting:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    added = asked.count - len(topic.partitions)
    if added <= 0:
        reason = (
            f"topic {asked.name} can only grow: partitions now {len(topic.partitions)}, "
            f"asked for {asked.count}"
        )
        return Refusal(ErrorCode.INVALID_PARTITIONS, reason)
    if added > room:
        reason = f"a request may make {LARGEST_REQUEST} partitions, this one asks for more"
        return Refusal(ErrorCode.POLICY_VIOLATION, reason)
    factor = len(topic.partitions[0].replicas)
    if asked.assignments is not None:
        by_hand = [each.broker_ids for each in asked.assignments]
        return _checked(image, topic, by_hand, added, factor)
    brokers = image.staying_brokers
    if factor > len(brokers):
        reason = f"replication factor {factor} is not possible, brokers: {len(brokers)}"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    placed = place(brokers, partition_count=added, replication_factor=factor, dice=dice)
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

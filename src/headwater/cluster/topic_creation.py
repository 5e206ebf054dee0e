"""Creating topics (TO-1, TO-2, TO-6): CreateTopics, topics made on first use, internal topics.

Each topic of a request stands for itself: one that is refused does not hold back the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.cluster.config_description import topic_entries
from headwater.cluster.decision import OVER_QUOTA, Decision, Refusal, Spend, unlimited
from headwater.cluster.effective import StaticConfig, topic_defaults_for
from headwater.cluster.facts import ConfigsReplaced, Fact, TopicCreated
from headwater.cluster.image import ClusterImage, ConfigResource, Partition, Topic
from headwater.cluster.placement import place, why_bad_assignment
from headwater.cluster.topic_ids import fresh_topic_id
from headwater.cluster.topic_names import CLUSTER_METADATA, colliding_key
from headwater.model.config_terms import ResourceType
from headwater.model.errors import ErrorCode
from headwater.model.failures import InvalidSetting
from headwater.model.ids import NodeId
from headwater.model.ports import Dice
from headwater.model.topic_names import why_illegal
from headwater.model.topic_settings import TopicSettings
from headwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
)

LARGEST_REQUEST: Final = 10_000
"""Partitions that one request may make."""

_UNSAID: Final = -1

Results = tuple[CreatableTopicResult, ...]


def create_topics(
    image: ClusterImage,
    request: CreateTopicsRequest,
    static: StaticConfig,
    dice: Dice,
    spend: Spend = unlimited,
) -> Decision[Results]:
    """What CreateTopics does and answers. Only validating makes the same checks, and no facts."""
    maker = _TopicMaker(image, static, dice, unlimited if request.validate_only else spend)
    asked = Counter(topic.name for topic in request.topics)
    too_many = sum(_partitions_asked(topic, static) for topic in request.topics) > LARGEST_REQUEST
    results = []
    for topic in {each.name: each for each in request.topics}.values():
        if too_many:
            reason = f"a request may make {LARGEST_REQUEST} partitions, this one asks for more"
            outcome: Topic | Refusal = Refusal(ErrorCode.POLICY_VIOLATION, reason)
        elif asked[topic.name] > 1:
            reason = f"topic {topic.name} stands more than once in the request"
            outcome = Refusal(ErrorCode.INVALID_REQUEST, reason)
        else:
            outcome = maker.make(topic)
        results.append(maker.result(topic, outcome))
    return Decision(() if request.validate_only else maker.facts, tuple(results))


def new_partition(replicas: Sequence[int]) -> Partition:
    """A partition at its birth: all replicas in sync, the first of them leads."""
    nodes = tuple(NodeId(node_id) for node_id in replicas)
    return Partition(replicas=nodes, isr=nodes, leader=nodes[0])


def _partitions_asked(topic: CreatableTopic, static: StaticConfig) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == _UNSAID:
        return static.settings.num_partitions
    return max(topic.num_partitions, 0)


@dataclass(slots=True)
class _TopicMaker:
    """Makes the topics of one request, and remembers those that it has made."""

    image: ClusterImage
    static: StaticConfig
    dice: Dice
    spend: Spend
    facts: list[Fact] = field(default_factory=list)
    _names_by_key: dict[str, str] = field(default_factory=dict)
    _defaults: TopicSettings | None = None
    _plain_configs: tuple[CreatableTopicConfigs, ...] | None = None

    def make(self, asked: CreatableTopic) -> Topic | Refusal:
        overrides = {config.name: config.value or "" for config in asked.configs}
        refusal = self._refuse_name(asked.name) or self._refuse_configs(asked, overrides)
        if refusal:
            return refusal
        replicas = _by_hand(asked, self.image) if asked.assignments else self._placed(asked)
        if isinstance(replicas, Refusal):
            return replicas
        if not self.spend(len(replicas)):
            return OVER_QUOTA
        topic = Topic(
            name=asked.name,
            topic_id=fresh_topic_id(self.image.names_by_id, self.dice),
            partitions=tuple(map(new_partition, replicas)),
        )
        self.facts.append(TopicCreated(topic))
        if overrides:
            resource = ConfigResource(ResourceType.TOPIC, topic.name)
            self.facts.append(ConfigsReplaced(resource, overrides))
        key = colliding_key(topic.name)
        if key is not None:
            self._names_by_key[key] = topic.name
        return topic

    def result(self, asked: CreatableTopic, outcome: Topic | Refusal) -> CreatableTopicResult:
        if isinstance(outcome, Refusal):
            return CreatableTopicResult(
                name=asked.name, error_code=outcome.code, error_message=outcome.reason
            )
        return CreatableTopicResult(
            name=asked.name,
            topic_id=outcome.topic_id,
            num_partitions=len(outcome.partitions),
            replication_factor=len(outcome.partitions[0].replicas),
            configs=self._configs(asked),
        )

    def _refuse_name(self, name: str) -> Refusal | None:
        if name == CLUSTER_METADATA:
            return Refusal(ErrorCode.INVALID_REQUEST, f"{name} belongs to the controllers")
        illegal = why_illegal(name)
        if illegal:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        if name in self.image.topics:
            return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists already")
        key = colliding_key(name)
        if key is None:
            return None
        other = self._names_by_key.get(key) or self.image.names_by_colliding_key.get(key)
        if other is None:
            return None
        reason = f"topic {name} collides with {other}: dots and underscores count as equal"
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)

    def _refuse_configs(
        self, asked: CreatableTopic, overrides: Mapping[str, str]
    ) -> Refusal | None:
        nulls = [config.name for config in asked.configs if config.value is None]
        if nulls:
            return Refusal(ErrorCode.INVALID_CONFIG, f"no value for {', '.join(nulls)}")
        try:
            self._settings(overrides)
        except InvalidSetting as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def _placed(self, asked: CreatableTopic) -> list[tuple[NodeId, ...]] | Refusal:
        settings = self.static.settings
        count, factor = asked.num_partitions, asked.replication_factor
        count = settings.num_partitions if count == _UNSAID else count
        factor = settings.default_replication_factor if factor == _UNSAID else factor
        brokers = self.image.staying_brokers
        unplaceable = Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} is not possible, brokers: {len(brokers)}",
        )
        # In the order in which Kafka looks (4.1).
        if factor <= 0:
            return unplaceable
        if count <= 0:
            reason = f"a topic cannot have {count} partitions"
            return Refusal(ErrorCode.INVALID_PARTITIONS, reason)
        if factor > len(brokers):
            return unplaceable
        return place(brokers, partition_count=count, replication_factor=factor, dice=self.dice)

    def _settings(self, overrides: Mapping[str, str]) -> TopicSettings:
        if self._defaults is None:
            self._defaults = topic_defaults_for(self.image, self.static)
        return self._defaults.with_overrides(overrides) if overrides else self._defaults

    def _configs(self, asked: CreatableTopic) -> tuple[CreatableTopicConfigs, ...]:
        """Topics without configs of their own share one answer: there may be ten thousand."""
        if self._plain_configs is None:
            self._plain_configs = self._entries({})
        if not asked.configs:
            return self._plain_configs
        return self._entries({config.name: config.value or "" for config in asked.configs})

    def _entries(self, overrides: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
        settings = self._settings(overrides)
        entries = topic_entries(self.image, self.static, overrides=overrides, settings=settings)
        return tuple(
            CreatableTopicConfigs(
                name=entry.name,
                # As it was given, spaces and all: Kafka does this (4.1).
                value=overrides.get(entry.name, entry.value),
                read_only=entry.read_only,
                config_source=entry.config_source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in entries
        )


def _by_hand(asked: CreatableTopic, image: ClusterImage) -> list[tuple[int, ...]] | Refusal:
    """The client's own assignment, in the order of the partitions' numbers."""
    if (asked.num_partitions, asked.replication_factor) != (_UNSAID, _UNSAID):
        reason = "with an assignment, neither partitions nor replication factor may be given"
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    chosen = {each.partition_index: each.broker_ids for each in asked.assignments}
    if len(chosen) < len(asked.assignments):
        reason = "the assignment names a partition twice"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    if sorted(chosen) != list(range(len(chosen))):
        reason = "partitions of an assignment are numbered from 0 without a gap"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    replicas = [chosen[number] for number in range(len(chosen))]
    for each in replicas:
        bad = why_bad_assignment(each, image.brokers, len(replicas[0]))
        if bad:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad)
    return replicas

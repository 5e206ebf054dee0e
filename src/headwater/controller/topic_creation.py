"""Decide CreateTopics, auto-created and internal topics (TO-1, TO-2, TO-6).

Each topic of a request is decided on its own. `create_on_first_use` creates internal topics, and
other topics with `auto.create.topics.enable`.

Note: a cluster must not create its internal topics with fewer replicas than configured while
brokers are still starting, because nothing adds replicas later. A standalone broker creates them
with one replica.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.common.api_error import ApiError
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidSetting
from headwater.common.ids import NodeId, TopicId
from headwater.common.ports import Random
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.topic_settings import TopicSettings
from headwater.common.topic_names import topic_name_error
from headwater.controller.replica_placer import assignment_error, place
from headwater.metadata.changes import ConfigsReplaced, MetadataChange, TopicCreated
from headwater.metadata.cluster_image import (
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
    assigned_directories,
)
from headwater.metadata.config_description import topic_entries
from headwater.metadata.controller_result import OVER_QUOTA, ControllerResult, Spend, unlimited
from headwater.metadata.effective_configs import StaticConfig, topic_defaults_for
from headwater.metadata.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    colliding_key,
)
from headwater.metadata.topic_ids import new_topic_id
from headwater.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
)

LARGEST_REQUEST: Final = 10_000
"""Maximum of partitions that one request may create."""

_DEFAULT: Final = -1

Results = tuple[CreatableTopicResult, ...]


def create_topics(
    image: ClusterImage,
    request: CreateTopicsRequest,
    static: StaticConfig,
    rng: Random,
    spend: Spend = unlimited,
) -> ControllerResult[Results]:
    """Decide a CreateTopics request; with `validate_only` without changes."""
    maker = _TopicMaker(image, static, rng, unlimited if request.validate_only else spend)
    requested = Counter(topic.name for topic in request.topics)
    too_many = sum(_partition_count(topic, static) for topic in request.topics) > LARGEST_REQUEST
    results = []
    for topic in {each.name: each for each in request.topics}.values():
        if too_many:
            reason = f"a request may create at most {LARGEST_REQUEST} partitions"
            outcome: TopicImage | ApiError = ApiError(ErrorCode.POLICY_VIOLATION, reason)
        elif requested[topic.name] > 1:
            reason = f"topic {topic.name} is in the request more than once"
            outcome = ApiError(ErrorCode.INVALID_REQUEST, reason)
        else:
            outcome = maker.make(topic)
        results.append(maker.result(topic, outcome))
    return ControllerResult(() if request.validate_only else maker.changes, tuple(results))


def new_partition(
    replicas: Sequence[int], brokers: Mapping[NodeId, BrokerRegistration] | None = None
) -> PartitionRegistration:
    """Return a new partition: all replicas in the ISR, the first one is the leader.

    A replica on a broker with one log directory is there; other brokers choose by themselves.
    """
    nodes = tuple(NodeId(node_id) for node_id in replicas)
    directories = [_only_directory(brokers.get(each)) for each in nodes] if brokers else ()
    return PartitionRegistration(
        replicas=nodes,
        isr=nodes,
        leader=nodes[0],
        directories=assigned_directories(directories),
    )


def _only_directory(broker: BrokerRegistration | None) -> TopicId:
    if broker is None or len(broker.log_dirs) != 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0]


def _partition_count(topic: CreatableTopic, static: StaticConfig) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == _DEFAULT:
        return static.settings.num_partitions
    return max(topic.num_partitions, 0)


@dataclass(slots=True)
class _TopicMaker:
    """Creates the topics of one request and checks them against each other."""

    image: ClusterImage
    static: StaticConfig
    rng: Random
    spend: Spend
    changes: list[MetadataChange] = field(default_factory=list)
    _names_by_key: dict[str, str] = field(default_factory=dict)
    _defaults: TopicSettings | None = None
    _plain_configs: tuple[CreatableTopicConfigs, ...] | None = None

    def make(self, requested: CreatableTopic) -> TopicImage | ApiError:
        overrides = {config.name: config.value or "" for config in requested.configs}
        refusal = self._check_name(requested.name) or self._check_configs(requested, overrides)
        if refusal:
            return refusal
        replicas = (
            _by_hand(requested, self.image) if requested.assignments else self._placed(requested)
        )
        if isinstance(replicas, ApiError):
            return replicas
        if not self.spend(len(replicas)):
            return OVER_QUOTA
        topic = TopicImage(
            name=requested.name,
            topic_id=new_topic_id(self.image.names_by_id, self.rng),
            partitions=tuple(new_partition(each, self.image.brokers) for each in replicas),
        )
        self.changes.append(TopicCreated(topic))
        if overrides:
            resource = ConfigResource(ResourceType.TOPIC, topic.name)
            self.changes.append(ConfigsReplaced(resource, overrides))
        key = colliding_key(topic.name)
        if key is not None:
            self._names_by_key[key] = topic.name
        return topic

    def result(
        self, requested: CreatableTopic, outcome: TopicImage | ApiError
    ) -> CreatableTopicResult:
        if isinstance(outcome, ApiError):
            return CreatableTopicResult(
                name=requested.name, error_code=outcome.code, error_message=outcome.reason
            )
        return CreatableTopicResult(
            name=requested.name,
            topic_id=outcome.topic_id,
            num_partitions=len(outcome.partitions),
            replication_factor=len(outcome.partitions[0].replicas),
            configs=self._configs(requested),
        )

    def _check_name(self, name: str) -> ApiError | None:
        if name == CLUSTER_METADATA:
            return ApiError(
                ErrorCode.INVALID_REQUEST, f"topic {name} is reserved for KRaft controllers"
            )
        illegal = topic_name_error(name)
        if illegal:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        if name in self.image.topics:
            return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
        key = colliding_key(name)
        if key is None:
            return None
        other = self._names_by_key.get(key) or self.image.names_by_colliding_key.get(key)
        if other is None:
            return None
        reason = f"topic {name} collides with {other}: '.' and '_' are equal in metric names"
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)

    def _check_configs(
        self, requested: CreatableTopic, overrides: Mapping[str, str]
    ) -> ApiError | None:
        nulls = [config.name for config in requested.configs if config.value is None]
        if nulls:
            return ApiError(ErrorCode.INVALID_CONFIG, f"null value for {', '.join(nulls)}")
        try:
            self._settings(overrides)
        except InvalidSetting as error:
            return ApiError(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def _placed(self, requested: CreatableTopic) -> list[tuple[NodeId, ...]] | ApiError:
        settings = self.static.settings
        count, factor = requested.num_partitions, requested.replication_factor
        count = settings.num_partitions if count == _DEFAULT else count
        factor = settings.default_replication_factor if factor == _DEFAULT else factor
        brokers = self.image.staying_brokers
        unplaceable = ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} is not between 1 and the number of live brokers "
            f"({len(brokers)})",
        )
        # The order of Kafka's checks (4.1).
        if factor <= 0:
            return unplaceable
        if count <= 0:
            reason = f"number of partitions must be larger than 0, not {count}"
            return ApiError(ErrorCode.INVALID_PARTITIONS, reason)
        if factor > len(brokers):
            return unplaceable
        return place(brokers, partition_count=count, replication_factor=factor, rng=self.rng)

    def _settings(self, overrides: Mapping[str, str]) -> TopicSettings:
        if self._defaults is None:
            self._defaults = topic_defaults_for(self.image, self.static)
        return self._defaults.with_overrides(overrides) if overrides else self._defaults

    def _configs(self, requested: CreatableTopic) -> tuple[CreatableTopicConfigs, ...]:
        """Topics without configs share one tuple: a request may create ten thousand."""
        if self._plain_configs is None:
            self._plain_configs = self._entries({})
        if not requested.configs:
            return self._plain_configs
        return self._entries({config.name: config.value or "" for config in requested.configs})

    def _entries(self, overrides: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
        settings = self._settings(overrides)
        entries = topic_entries(self.image, self.static, overrides=overrides, settings=settings)
        return tuple(
            CreatableTopicConfigs(
                name=entry.name,
                # As it was given, with its spaces, as in Kafka 4.1.
                value=overrides.get(entry.name, entry.value),
                read_only=entry.read_only,
                config_source=entry.config_source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in entries
        )


def _by_hand(requested: CreatableTopic, image: ClusterImage) -> list[tuple[int, ...]] | ApiError:
    """Return the client's assignment in partition order."""
    if (requested.num_partitions, requested.replication_factor) != (_DEFAULT, _DEFAULT):
        reason = "an assignment excludes number of partitions and replication factor"
        return ApiError(ErrorCode.INVALID_REQUEST, reason)
    chosen = {each.partition_index: each.broker_ids for each in requested.assignments}
    if len(chosen) < len(requested.assignments):
        reason = "the assignment contains a partition twice"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    if sorted(chosen) != list(range(len(chosen))):
        reason = "the partitions of an assignment must be numbered from 0 without gaps"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    replicas = [chosen[number] for number in range(len(chosen))]
    for each in replicas:
        bad = assignment_error(each, image.brokers, len(replicas[0]))
        if bad:
            return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad)
    return replicas


def create_on_first_use(
    image: ClusterImage, names: Iterable[str], static: StaticConfig, rng: Random
) -> ControllerResult[Results]:
    """Create missing topics with default settings, internal ones with their own.

    The caller checks `auto.create.topics.enable`, which applies to clients' topics only.
    """
    missing = [name for name in dict.fromkeys(names) if name not in image.topics]
    wanted = (creatable(name, static.settings, image) for name in missing)
    return create_topics(image, CreateTopicsRequest(topics=tuple(wanted)), static, rng)


def creatable(name: str, settings: BrokerSettings, image: ClusterImage) -> CreatableTopic:
    """Return the CreateTopics entry of a topic that is created automatically."""
    if name == CONSUMER_OFFSETS:
        factor = settings.offsets_topic_replication_factor
        return CreatableTopic(
            name=CONSUMER_OFFSETS,
            num_partitions=settings.offsets_topic_num_partitions,
            replication_factor=1 if image.is_standalone else factor,
            configs=_configs(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(settings.offsets_topic_segment_bytes),
                }
            ),
        )
    if name == TRANSACTION_STATE:
        factor = settings.transaction_state_log_replication_factor
        in_sync = settings.transaction_state_log_min_isr
        return CreatableTopic(
            name=TRANSACTION_STATE,
            num_partitions=settings.transaction_state_log_num_partitions,
            replication_factor=1 if image.is_standalone else factor,
            configs=_configs(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(1 if image.is_standalone else in_sync),
                    "segment.bytes": str(settings.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                }
            ),
        )
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


def _configs(values: dict[str, str]) -> tuple[CreatableTopicConfig, ...]:
    return tuple(CreatableTopicConfig(name=name, value=value) for name, value in values.items())

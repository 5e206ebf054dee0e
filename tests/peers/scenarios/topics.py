"""CreateTopics, DeleteTopics, CreatePartitions and partition reassignments."""

from collections.abc import Sequence

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from headwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.peers.lab import Lab
from tests.peers.transcript import Plain


def _topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    placed: Sequence[tuple[int, tuple[int, ...]]] = (),
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in placed
        ),
        configs=tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )


def _create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=validate_only)


def _show_created(lab: Lab, label: str, request: CreateTopicsRequest, version: int = 7) -> None:
    """Like `show`, but by name: Kafka's response has the order of a hash map."""
    answer = lab.get(request, CreateTopicsResponse, version)
    shown: dict[str, Plain] = {}
    for topic in answer.topics:
        lab.learn_topic_id(topic.name, topic.topic_id)
        result = lab.plain(topic, version)
        assert isinstance(result, dict)
        if "configs" in result and topic.configs is not None:
            configs = {each.name: lab.plain(each, version) for each in topic.configs}
            result = {**result, "configs": configs}
        shown[topic.name] = result
    lab.note(label, {"throttle_time_ms": answer.throttle_time_ms, "topics": shown})


def creation_in_every_version(lab: Lab) -> None:
    for version in range(2, 8):
        topic = _topic(lab.named(f"v{version}"), 2, retention_ms="1000")
        _show_created(lab, f"version {version}", _create(topic), version)
        _show_created(lab, f"again in version {version}", _create(topic), version)
    defaults = _topic(lab.named("defaults"), -1, -1)
    for version in (4, 5, 7):
        request = _create(defaults, validate_only=True)
        _show_created(lab, f"defaults in version {version}", request, version)


def names(lab: Lab) -> None:
    for name in ("", ".", "..", "a b", "a/b", "x" * 249, "x" * 250, "ümlaut"):
        request = _create(_topic(name), validate_only=True)
        _show_created(lab, f"name {name[:9]!r} of {len(name)}", request)
    lab.topic("with.dot")
    colliding = _topic(lab.named("with_dot"))
    _show_created(lab, "differs in _ and . only", _create(colliding))
    twice = _topic(lab.named("twice"))
    _show_created(lab, "twice in one request", _create(twice, twice))
    _show_created(lab, "none", _create())
    several = (_topic(lab.named("good")), _topic("bad name"), _topic(lab.named("with.dot")))
    _show_created(lab, "one good, one bad, one there", _create(*several))


def counts_and_factors(lab: Lab) -> None:
    for partitions, factor in (
        (0, 1),
        (-1, 1),
        (-2, 1),
        (1, 0),
        (1, -1),
        (1, -2),
        (1, 2),
        (1, 32767),
        (-1, -1),
        (0, 0),
    ):
        request = _create(_topic(lab.named(), partitions, factor), validate_only=True)
        _show_created(lab, f"{partitions} partitions, factor {factor}", request)
    _show_created(lab, "an old version", _create(_topic(lab.named(), -1, -1)), 3)
    lots = _create(_topic(lab.named("lots"), 10_001), validate_only=True)
    _show_created(lab, "too many partitions", lots)


def placements(lab: Lab) -> None:
    for label, placed in (
        ("good", [(0, (1,))]),
        ("unknown broker", [(0, (7,))]),
        ("the same broker twice", [(0, (1, 1))]),
        ("no brokers", [(0, ())]),
        ("does not begin at 0", [(1, (1,))]),
        ("a gap", [(0, (1,)), (2, (1,))]),
        ("twice", [(0, (1,)), (0, (1,))]),
        ("uneven", [(0, (1,)), (1, (1, 2))]),
        ("negative partition", [(-1, (1,))]),
        ("negative broker", [(0, (-1,))]),
    ):
        topic = _topic(lab.named(), -1, -1, placed)
        _show_created(lab, label, _create(topic, validate_only=True))
    counted = _topic(lab.named(), 1, -1, [(0, (1,))])
    _show_created(lab, "with a count", _create(counted, validate_only=True))
    replicated = _topic(lab.named(), -1, 1, [(0, (1,))])
    _show_created(lab, "with a factor", _create(replicated, validate_only=True))


def configs_at_creation(lab: Lab) -> None:
    for label, configs in (
        ("good", {"cleanup_policy": "compact,delete", "retention_ms": "-1"}),
        ("unknown name", {"no_such_config": "1"}),
        ("not a number", {"retention_ms": "soon"}),
        ("too small", {"segment_bytes": "1"}),
        ("negative", {"max_message_bytes": "-5"}),
        ("too large for an int", {"max_message_bytes": "99999999999"}),
        ("unknown policy", {"cleanup_policy": "shred"}),
        ("empty policy", {"cleanup_policy": ""}),
        ("the same policy twice", {"cleanup_policy": "delete,delete"}),
        ("policies with blanks", {"cleanup_policy": " compact , delete "}),
        ("not a truth value", {"preallocate": "perhaps"}),
        ("a truth value in capitals", {"preallocate": "TRUE"}),
        ("blanks around a number", {"retention_ms": " 5000 "}),
        ("null", {"retention_ms": None}),
        ("unknown codec", {"compression_type": "rar"}),
        ("codec level", {"compression_gzip_level": "77"}),
        ("ratio above 1", {"min_cleanable_dirty_ratio": "1.5"}),
        ("min isr 0", {"min_insync_replicas": "0"}),
        ("min isr above the factor", {"min_insync_replicas": "3"}),
        ("lags that contradict", {"min_compaction_lag_ms": "9", "max_compaction_lag_ms": "5"}),
        ("timestamps", {"message_timestamp_type": "Sometime"}),
        ("remote storage", {"remote_storage_enable": "true"}),
        ("local retention", {"local_retention_ms": "999999999999"}),
        ("internal segment bytes", {"internal_segment_bytes": "100"}),
        ("throttled replicas", {"leader_replication_throttled_replicas": "0:1,1:1"}),
        ("bad throttled replicas", {"leader_replication_throttled_replicas": "huh"}),
        ("removed config", {"message_format_version": "3.0"}),
        ("a broker's config", {"log_retention_ms": "5"}),
    ):
        topic = _topic(lab.named(), 1, 1, **configs)
        _show_created(lab, label, _create(topic, validate_only=True))
    doubled = CreatableTopic(
        name=lab.named(),
        num_partitions=1,
        replication_factor=1,
        configs=(CreatableTopicConfig(name="retention.ms", value="1"),) * 2,
    )
    _show_created(lab, "the same config twice", _create(doubled, validate_only=True))
    made = _topic(
        lab.named("made"), 1, 1, retention_ms=" 5000 ", cleanup_policy=" compact , delete "
    )
    _show_created(lab, "kept as given", _create(made))


def deletion(lab: Lab) -> None:
    def delete(label: str, version: int, *topics: DeleteTopicState) -> None:
        request = DeleteTopicsRequest(topics=topics, timeout_ms=10_000)
        lab.show(label, request, version, unordered=True)

    for version in range(1, 7):
        name = lab.topic(f"v{version}")
        delete(f"version {version}", version, DeleteTopicState(name=name))
        delete(f"unknown in version {version}", version, DeleteTopicState(name="nowhere"))
    name = lab.topic("by-id")
    topic_id = lab.topic_id(name)
    delete("name and id", 6, DeleteTopicState(name=name, topic_id=topic_id))
    delete("by id", 6, DeleteTopicState(topic_id=topic_id))
    delete("by an unknown id", 6, DeleteTopicState(topic_id=TopicId(bytes(range(16)))))
    delete("neither", 6, DeleteTopicState())
    delete("no topics", 6)
    one, two = DeleteTopicState(name=lab.topic("one")), DeleteTopicState(name=lab.topic("two"))
    delete("the same twice", 6, one, one)
    two_by_id = DeleteTopicState(topic_id=lab.topic_id(lab.named("two")))
    delete("by name and by id", 6, two, two_by_id)
    delete("a bad name", 6, DeleteTopicState(name="a b"))


def deleted_topics_are_gone(lab: Lab) -> None:
    name = lab.topic()
    topic_id = lab.topic_id(name)
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=10_000)
    lab.show("deleted", request)
    by_name = MetadataRequest(
        topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    lab.until(by_name, MetadataResponse, lambda answer: answer.topics[0].error_code is unknown)
    by_id = MetadataRequest(topics=(MetadataRequestTopic(topic_id=topic_id, name=None),))
    lab.show("by its id", by_id)
    lab.topic()
    answer = lab.get(by_name, MetadataResponse)
    lab.note("a new one has a new id", answer.topics[0].topic_id != topic_id)


def more_partitions(lab: Lab) -> None:
    topic = lab.topic(partitions=2)

    def show(
        label: str,
        count: int,
        placed: Sequence[tuple[int, ...]] | None = None,
        name: str = topic,
        version: int = 3,
        validate_only: bool = True,
    ) -> None:
        assignments = None
        if placed is not None:
            assignments = tuple(CreatePartitionsAssignment(broker_ids=each) for each in placed)
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        request = CreatePartitionsRequest(
            topics=(wanted,), timeout_ms=10_000, validate_only=validate_only
        )
        lab.show(label, request, version)

    show("validated", 3)
    show("the same count", 2)
    show("fewer", 1)
    show("none", 0)
    show("negative", -1)
    show("unknown topic", 3, name=lab.named("nowhere"))
    show("placed", 3, [(1,)])
    show("placed too few", 4, [(1,)])
    show("placed too many", 3, [(1,), (1,)])
    show("placed on no broker", 3, [()])
    show("placed on an unknown broker", 3, [(9,)])
    show("placed twice on one", 3, [(1, 1)])
    show("an empty placement", 3, [])
    show("too many", 100_000)
    for version in range(4):
        show(f"grown in version {version}", 3 + version, version=version, validate_only=False)
        lab.await_leaders(topic, 3 + version)
    same = CreatePartitionsTopic(name=topic, count=9, assignments=None)
    twice = CreatePartitionsRequest(topics=(same, same), timeout_ms=1000, validate_only=True)
    lab.show("twice in one request", twice)
    lab.show("no topics", CreatePartitionsRequest(timeout_ms=1000))


def elections(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    for version in range(3):
        for kind in (0, 1) if version else (0,):
            request = ElectLeadersRequest(
                election_type=kind,
                topic_partitions=(TopicPartitions(topic=topic, partitions=(0, 1, 8)),),
                timeout_ms=10_000,
            )
            lab.show(f"version {version}, type {kind}", request, version, unordered=True)
    strange = (TopicPartitions(topic=lab.named("nowhere"), partitions=(0,)),)
    lab.show("unknown topic", ElectLeadersRequest(topic_partitions=strange, timeout_ms=10_000))
    lab.show("no topics", ElectLeadersRequest(timeout_ms=10_000))
    odd = ElectLeadersRequest(election_type=9, topic_partitions=strange, timeout_ms=10_000)
    lab.show("a type that is none", odd)
    everywhere = ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000)
    answer = lab.get(everywhere, ElectLeadersResponse)
    mine = [each for each in answer.replica_election_results if each.topic == topic]
    lab.note("all topics", [answer.error_code.name, *(lab.plain(each, 2) for each in mine)])


def reassignments(lab: Lab) -> None:
    topic = lab.topic(partitions=2)

    def show(
        label: str,
        replicas: tuple[int, ...] | None,
        partition: int = 0,
        name: str = topic,
        version: int = 1,
    ) -> None:
        place = ReassignablePartition(partition_index=partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=10_000, topics=(ReassignableTopic(name=name, partitions=(place,)),)
        )
        lab.show(label, request, version)

    show("to where it is", (1,))
    show("to where it is, version 0", (1,), version=0)
    show("cancel nothing", None)
    show("to an unknown broker", (5,))
    show("to more", (1, 5))
    show("to no broker", ())
    show("twice to one", (1, 1))
    show("negative", (-1,))
    show("unknown partition", (1,), partition=7)
    show("unknown topic", (1,), name=lab.named("nowhere"))
    lab.show("no topics", AlterPartitionReassignmentsRequest(timeout_ms=1000))
    fixed = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        allow_replication_factor_change=False,
        topics=(ReassignableTopic(name=topic, partitions=(ReassignablePartition(replicas=(1,)),)),),
    )
    lab.show("the factor fixed", fixed)
    listed = ListPartitionReassignmentsTopics(name=topic, partition_indexes=(0, 1, 9))
    lab.show("list of some", ListPartitionReassignmentsRequest(topics=(listed,)))
    lab.show("list of all", ListPartitionReassignmentsRequest())
    unknown = ListPartitionReassignmentsTopics(name="nowhere", partition_indexes=(0,))
    lab.show("list of an unknown topic", ListPartitionReassignmentsRequest(topics=(unknown,)))

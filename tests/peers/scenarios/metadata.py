"""Metadata, DescribeTopicPartitions, DescribeCluster, ApiVersions, FindCoordinator."""

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.protocol.messages.describe_cluster import DescribeClusterRequest
from headwater.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.peers.lab import Lab
from tests.peers.transcript import Plain, in_order


def _of(*names: str, create: bool = False) -> MetadataRequest:
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def api_versions(lab: Lab) -> None:
    for version in (0, 2, 3, 4):
        request = ApiVersionsRequest(client_software_name="peer", client_software_version="1")
        answer = lab.get(request, ApiVersionsResponse, version)
        lab.note(f"version {version}", _by_key(lab, answer, version))
    nameless = ApiVersionsRequest(client_software_name="", client_software_version="1")
    lab.show("no software name", nameless, 3)
    odd = ApiVersionsRequest(client_software_name="a name", client_software_version="v/1")
    lab.show("a strange software name", odd, 4)


def _by_key(lab: Lab, answer: ApiVersionsResponse, version: int) -> Plain:
    shown = lab.plain(answer, version)
    assert isinstance(shown, dict)
    # A row that one side lacks must not shift all those behind it.
    keys = {
        f"key {each.api_key}": f"{each.min_version}-{each.max_version}" for each in answer.api_keys
    }
    # How many changes the features have seen is each broker's own history.
    epoch = answer.finalized_features_epoch
    return {**shown, "api_keys": keys, "finalized_features_epoch": epoch >= 0}


def every_version(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    for version in range(14):
        lab.show(f"version {version}", _of(topic, create=version < 4), version, unordered=True)
        lab.show(
            f"an unknown topic in version {version}",
            _of("a/bad/name", create=version < 4),
            version,
        )


def unknown_and_bad_names(lab: Lab) -> None:
    topic = lab.topic()
    lab.show("unknown, may not be created", _of(lab.named("nowhere")))
    lab.show("known and unknown", _of(topic, lab.named("nowhere")), unordered=True)
    for name in ("", ".", "..", "a b", "x" * 250, "ümlaut"):
        lab.show(f"name {name[:9]!r}", _of(name))
        lab.show(f"create {name[:9]!r}", _of(name, create=True))
    lab.show("no topics", _of())
    lab.show("the same twice", _of(topic, topic))


def by_id(lab: Lab) -> None:
    topic = lab.topic()
    known = MetadataRequestTopic(topic_id=lab.topic_id(topic), name=None)
    strange = MetadataRequestTopic(topic_id=TopicId(bytes(range(16))), name=None)
    zero = MetadataRequestTopic(name=None)
    for version in (10, 11, 12, 13):
        lab.show(f"known, {version}", MetadataRequest(topics=(known,)), version)
        lab.show(f"unknown, {version}", MetadataRequest(topics=(strange,)), version)
    lab.show("neither id nor name", MetadataRequest(topics=(zero,)))
    both = MetadataRequestTopic(topic_id=lab.topic_id(topic), name=topic)
    lab.show("id and name", MetadataRequest(topics=(both,)))
    mixed = (MetadataRequestTopic(name=topic), known)
    lab.show("one by id, one by name", MetadataRequest(topics=mixed))


def all_topics(lab: Lab) -> None:
    mine = {lab.topic("a"), lab.topic("b", partitions=3)}
    answer = lab.get(MetadataRequest(topics=None), MetadataResponse)
    found = [each for each in answer.topics if each.name in mine]
    shown = [lab.plain(each, 13) for each in found]
    lab.note("all topics", in_order(shown))
    old = lab.get(MetadataRequest(topics=None), MetadataResponse, 0)
    lab.note("in version 0", len([each for each in old.topics if each.name in mine]))


def auto_creation(lab: Lab) -> None:
    name = lab.named("made")
    lab.show("at first", _of(name, create=True))
    lab.until(
        _of(name), MetadataResponse, lambda answer: answer.topics[0].error_code is ErrorCode.NONE
    )
    lab.topic_id(name)
    lab.await_leaders(name, 1)
    lab.show("then", _of(name))
    deleted = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=30_000)
    lab.show("deleted", deleted)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    lab.until(_of(name), MetadataResponse, lambda answer: answer.topics[0].error_code is unknown)
    lab.show("created again, at first", _of(name, create=True))
    lab.until(
        _of(name), MetadataResponse, lambda answer: answer.topics[0].error_code is ErrorCode.NONE
    )
    lab.topic_id(name)
    lab.await_leaders(name, 1)
    lab.show("created again, then", _of(name))
    colliding = lab.named("made").replace(".", "_")
    lab.show("a name that differs in _ and . only", _of(colliding, create=True))


def authorized_operations(lab: Lab) -> None:
    topic = lab.topic()
    topics = (MetadataRequestTopic(name=topic),)
    request = MetadataRequest(
        topics=topics,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    lab.show("version 8", request, 8)
    lab.show("version 10", request, 10)
    newer = MetadataRequest(topics=topics, include_topic_authorized_operations=True)
    lab.show("version 12", newer, 12)


def describe_cluster(lab: Lab) -> None:
    for version in (0, 1, 2):
        lab.show(f"version {version}", DescribeClusterRequest(), version)
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    lab.show("operations", asked)
    lab.show("with fenced ones", DescribeClusterRequest(include_fenced_brokers=True))
    lab.show("controllers", DescribeClusterRequest(endpoint_type=2))
    lab.show("an endpoint type that is none", DescribeClusterRequest(endpoint_type=7))


def describe_topic_partitions(lab: Lab) -> None:
    first, second = lab.topic("a", partitions=3), lab.topic("b", partitions=2)
    both = (TopicRequest(name=second), TopicRequest(name=first))

    def show(label: str, topics: tuple[TopicRequest, ...] = both, **options: object) -> None:
        request = DescribeTopicPartitionsRequest(topics=topics)
        lab.show(label, _with(request, **options))

    show("both, in the wrong order")
    show("at most two", response_partition_limit=2)
    show("at most three", response_partition_limit=3)
    show("from a cursor", cursor=Cursor(topic_name=first, partition_index=1))
    show("from a cursor in the second", cursor=Cursor(topic_name=second, partition_index=1))
    show("from behind the end", cursor=Cursor(topic_name=second, partition_index=9))
    show("a cursor of no topic", cursor=Cursor(topic_name=lab.named("aa"), partition_index=0))
    show("a negative cursor", cursor=Cursor(topic_name=first, partition_index=-1))
    show("unknown", (TopicRequest(name=lab.named("nowhere")),))
    show("known and unknown", (*both, TopicRequest(name=lab.named("aa"))))
    show("twice", (*both, *both))
    show("a bad name", (TopicRequest(name="a b"),))
    show("limit 0", response_partition_limit=0)
    show("limit -1", response_partition_limit=-1)


def _with(
    request: DescribeTopicPartitionsRequest, **options: object
) -> DescribeTopicPartitionsRequest:
    limit = options.get("response_partition_limit", 2000)
    cursor = options.get("cursor")
    assert isinstance(limit, int)
    assert cursor is None or isinstance(cursor, Cursor)
    return DescribeTopicPartitionsRequest(
        topics=request.topics, response_partition_limit=limit, cursor=cursor
    )


def find_coordinator(lab: Lab) -> None:
    key = lab.named("group")
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        # The first question makes the internal topic; what counts is where it ends.
        lab.until(
            request,
            FindCoordinatorResponse,
            lambda answer: answer.coordinators[0].error_code is ErrorCode.NONE,
        )
        for version in range(key_type, 7):
            lab.show(f"type {key_type}, version {version}", request, version)
    lab.show("no keys", FindCoordinatorRequest())
    lab.show("an empty key", FindCoordinatorRequest(coordinator_keys=("",)))
    lab.show("an empty key, version 2", FindCoordinatorRequest(coordinator_keys=("",)), 2)
    lab.show(
        "an empty transactional id", FindCoordinatorRequest(key_type=1, coordinator_keys=("",))
    )
    lab.show("a type that is none", FindCoordinatorRequest(key_type=9, coordinator_keys=(key,)))
    several = FindCoordinatorRequest(coordinator_keys=(key, key + "2", key))
    lab.show("several keys", several, unordered=True)


def manual_placement(lab: Lab) -> None:
    """A topic with manually placed replicas."""
    name = lab.named()
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=(1,)) for number in (1, 0)
    )
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    answer = lab.get(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    lab.note("created", answer.topics[0].error_code.name)
    lab.await_leaders(name, 2)
    lab.topic_id(name)
    lab.show("metadata", _of(name), unordered=True)

"""Requests that are cheap to send and expensive to answer, for `bench.hostile_clients`.

Each request is built once and replayed, so the attacker costs next to nothing. Topics, groups and
ids do not exist unless stated: an attacker without any permission can send unknown names.
"""

from collections.abc import Callable
from typing import Final

from headwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.protocol.messages.delete_groups import DeleteGroupsRequest
from headwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headwater.protocol.messages.describe_acls import DescribeAclsRequest
from headwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from headwater.protocol.messages.describe_groups import DescribeGroupsRequest
from headwater.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.protocol.messages.find_coordinator import FindCoordinatorRequest
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headwater.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.protocol.older_versions import Message

_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_LATEST: Final = -1

MakeRequest = Callable[[int], tuple[Message, int]]
"""Creates a request with about that many array elements, and its version."""


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in range(count))


def _describe_groups(count: int) -> tuple[Message, int]:
    return DescribeGroupsRequest(groups=_names(count)), 5


def _metadata(count: int) -> tuple[Message, int]:
    topics = tuple(MetadataRequestTopic(name=name) for name in _names(count))
    # The last version without topic ids, which would triple the size of the request.
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9


def _find_coordinator(count: int) -> tuple[Message, int]:
    return FindCoordinatorRequest(coordinator_keys=_names(count)), 4


def _describe_topic_configs(count: int) -> tuple[Message, int]:
    resources = tuple(
        DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name="bench", configuration_keys=None
        )
        for _ in range(count)
    )
    return DescribeConfigsRequest(resources=resources, include_synonyms=True), 4


def _describe_broker_configs(count: int) -> tuple[Message, int]:
    # The ids of both brokers under test.
    resources = tuple(
        DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE, resource_name=f"{number % 2}", configuration_keys=None
        )
        for number in range(count)
    )
    return DescribeConfigsRequest(resources=resources, include_synonyms=True), 4


def _offset_fetch(count: int) -> tuple[Message, int]:
    topics = tuple(
        OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in _names(count // 2)
    )
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    return OffsetFetchRequest(groups=(group,)), 8


def _offset_fetch_groups(count: int) -> tuple[Message, int]:
    groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in _names(count))
    return OffsetFetchRequest(groups=groups), 8


def _list_offsets(count: int) -> tuple[Message, int]:
    partition = ListOffsetsPartition(timestamp=_LATEST)
    topics = tuple(ListOffsetsTopic(name=n, partitions=(partition,)) for n in _names(count // 2))
    return ListOffsetsRequest(replica_id=-1, topics=topics), 7


def _list_offsets_of_one(count: int) -> tuple[Message, int]:
    partitions = (ListOffsetsPartition(timestamp=_LATEST),) * count
    return ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name="bench", partitions=partitions),)
    ), 7


def _offset_for_leader_epoch(count: int) -> tuple[Message, int]:
    topics = tuple(
        OffsetForLeaderTopic(topic=n, partitions=(OffsetForLeaderPartition(),))
        for n in _names(count // 2)
    )
    return OffsetForLeaderEpochRequest(topics=topics), 4


def _delete_records(count: int) -> tuple[Message, int]:
    topics = tuple(
        DeleteRecordsTopic(name=n, partitions=(DeleteRecordsPartition(),))
        for n in _names(count // 2)
    )
    return DeleteRecordsRequest(topics=topics, timeout_ms=1_000), 2


def _create_topics(count: int) -> tuple[Message, int]:
    topics = tuple(
        CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in _names(count)
    )
    return CreateTopicsRequest(topics=topics, validate_only=True), 7


def _alter_configs(count: int) -> tuple[Message, int]:
    resources = tuple(
        AlterConfigsResource(
            resource_type=_TOPIC_RESOURCE,
            resource_name=name,
            configs=(AlterableConfig(name="retention.ms", value="1"),),
        )
        for name in _names(count // 2)
    )
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=True), 1


def _delete_groups(count: int) -> tuple[Message, int]:
    return DeleteGroupsRequest(groups_names=_names(count)), 2


def _describe_transactions(count: int) -> tuple[Message, int]:
    return DescribeTransactionsRequest(transactional_ids=_names(count)), 0


def _offset_commit(count: int) -> tuple[Message, int]:
    topics = tuple(
        OffsetCommitRequestTopic(name=n, partitions=(OffsetCommitRequestPartition(),))
        for n in _names(count // 2)
    )
    return OffsetCommitRequest(group_id="g", topics=topics), 8


def _fetch(count: int) -> tuple[Message, int]:
    partition = FetchPartition(partition_max_bytes=1)
    topics = tuple(FetchTopic(topic=n, partitions=(partition,)) for n in _names(count // 2))
    return FetchRequest(max_bytes=1, topics=topics), 12


def _produce(count: int) -> tuple[Message, int]:
    topics = tuple(
        TopicProduceData(name=n, partition_data=(PartitionProduceData(records=memoryview(b"")),))
        for n in _names(count // 2)
    )
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), 9


def _describe_acls(_: int) -> tuple[Message, int]:
    return DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    ), 3


LARGE_REQUESTS: Final[dict[str, MakeRequest]] = {
    "DescribeGroups": _describe_groups,
    "Metadata": _metadata,
    "FindCoordinator": _find_coordinator,
    "DescribeConfigs of a topic": _describe_topic_configs,
    "DescribeConfigs of a broker": _describe_broker_configs,
    "OffsetFetch of many partitions": _offset_fetch,
    "OffsetFetch of many groups": _offset_fetch_groups,
    "ListOffsets of many topics": _list_offsets,
    "ListOffsets of one partition": _list_offsets_of_one,
    "OffsetForLeaderEpoch": _offset_for_leader_epoch,
    "DeleteRecords": _delete_records,
    "CreateTopics": _create_topics,
    "IncrementalAlterConfigs": _alter_configs,
    "DeleteGroups": _delete_groups,
    "DescribeTransactions": _describe_transactions,
    "OffsetCommit": _offset_commit,
    "Fetch": _fetch,
    "Produce": _produce,
    "DescribeAcls": _describe_acls,
}

"""Create, list, describe, alter and delete topics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headwater.client.admin.admin_calls import Calls, outcome, results_of
from headwater.client.admin.config_values import ConfigValue, config_text
from headwater.client.admin.descriptions import NewTopic, TopicDescription
from headwater.client.argument_checks import several, whole_number
from headwater.client.errors import InvalidArgument, UnsupportedVersion
from headwater.client.network.cluster_metadata import PartitionView
from headwater.common.ids import TopicId
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)


class TopicCalls(Calls):
    """The topic methods of the admin client."""

    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, TopicId]:
        """Create topics; return their ids, zero for old brokers and `validate_only`."""
        deadline_ms = self._deadline_ms(timeout)
        wanted = [_new_topic(each) for each in several(topics, "topics")]
        request = CreateTopicsRequest(
            topics=tuple(_creatable(each) for each in wanted),
            timeout_ms=self._left_ms(deadline_ms),
            validate_only=validate_only,
        )
        response = await self._call_controller(
            request,
            CreateTopicsResponse,
            deadline_ms,
            lambda answer: [each.error_code for each in answer.topics],
        )
        return results_of(
            {
                each.name: outcome(each.error_code, each.error_message, each.name, each.topic_id)
                for each in response.topics
            },
            requested=[each.name for each in wanted],
        )

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, ConfigValue] | None = None,
        timeout: float | None = None,
    ) -> TopicId:
        """Create one topic."""
        topic = NewTopic(
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
        )
        return (await self.create_topics([topic], timeout=timeout))[name]

    async def delete_topics(
        self, topics: Iterable[str | TopicId], *, timeout: float | None = None
    ) -> None:
        """Delete topics by name or id."""
        deadline_ms = self._deadline_ms(timeout)
        chosen = several(topics, "topics")
        states = tuple(
            DeleteTopicState(topic_id=each)
            if isinstance(each, TopicId)
            else DeleteTopicState(name=each)
            for each in chosen
        )
        response = await self._call_controller(
            DeleteTopicsRequest(topics=states, timeout_ms=self._left_ms(deadline_ms)),
            DeleteTopicsResponse,
            deadline_ms,
            lambda answer: [each.error_code for each in answer.responses],
        )
        named = {each.name or str(each.topic_id): each for each in response.responses}
        by_id = {str(each.topic_id) for each in response.responses}
        results_of(
            {
                name: outcome(each.error_code, each.error_message, name, None)
                for name, each in named.items()
            },
            # The response to a deletion by id has the name.
            requested=[str(each) for each in chosen if str(each) not in by_id],
        )

    async def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> list[str]:
        """Topic names, sorted."""
        response = await self._call_any(
            MetadataRequest(topics=None, allow_auto_topic_creation=False),
            MetadataResponse,
            self._deadline_ms(timeout),
        )
        return sorted(
            each.name
            for each in response.topics
            if each.name and (include_internal or not each.is_internal)
        )

    async def describe_topics(
        self, topics: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Topics with their partitions, and their eligible leader replicas."""
        names = several(topics, "topics")
        wanted = tuple(MetadataRequestTopic(name=name) for name in names)
        deadline_ms = self._deadline_ms(timeout)
        response = await self._call_any(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False),
            MetadataResponse,
            deadline_ms,
        )
        # With all replicas in the ISR there is no ELR.
        degraded = [
            each.name or ""
            for each in response.topics
            if any(len(one.isr_nodes) < len(one.replica_nodes) for one in each.partitions)
        ]
        elrs = await self._eligible_leader_replicas(degraded, deadline_ms)
        return results_of(
            {
                each.name or "": outcome(each.error_code, None, each.name, _described(each, elrs))
                for each in response.topics
            },
            requested=names,
        )

    async def _eligible_leader_replicas(
        self, topics: Sequence[str], deadline_ms: int
    ) -> dict[tuple[str, int], DescribeTopicPartitionsResponsePartition]:
        """Describe partitions page by page; empty for brokers before KIP-966."""
        found: dict[tuple[str, int], DescribeTopicPartitionsResponsePartition] = {}
        request = DescribeTopicPartitionsRequest(
            topics=tuple(TopicRequest(name=each) for each in sorted(topics))
        )
        while topics:
            try:
                response = await self._call_any(
                    request, DescribeTopicPartitionsResponse, deadline_ms
                )
            except UnsupportedVersion:
                break
            for topic in response.topics:
                for each in topic.partitions:
                    found[topic.name or "", each.partition_index] = each
            if response.next_cursor is None:
                break
            request = replace(request, cursor=response.next_cursor)
        return found

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Grow topics to these totals; `assignments` has the new partitions' brokers."""
        deadline_ms = self._deadline_ms(timeout)
        chosen = assignments or {}
        request = CreatePartitionsRequest(
            topics=tuple(
                CreatePartitionsTopic(
                    name=name,
                    count=whole_number(count, f"partitions of {name}"),
                    assignments=tuple(
                        CreatePartitionsAssignment(broker_ids=tuple(each)) for each in chosen[name]
                    )
                    if name in chosen
                    else None,
                )
                for name, count in counts.items()
            ),
            timeout_ms=self._left_ms(deadline_ms),
            validate_only=validate_only,
        )
        response = await self._call_controller(
            request,
            CreatePartitionsResponse,
            deadline_ms,
            lambda answer: [each.error_code for each in answer.results],
        )
        results_of(
            {
                each.name: outcome(each.error_code, each.error_message, each.name, None)
                for each in response.results
            },
            requested=counts,
        )


def _new_topic(given: object) -> NewTopic:
    if not isinstance(given, NewTopic):
        raise InvalidArgument(f"a topic must be NewTopic(name=...), not {given!r}")
    return given


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else whole_number(topic.partitions, "partitions"),
        replication_factor=-1
        if topic.assignments
        else whole_number(topic.replication_factor, "replication_factor"),
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(brokers))
            for number, brokers in topic.assignments.items()
        ),
        configs=tuple(
            CreatableTopicConfig(name=name, value=config_text(name, value))
            for name, value in topic.configs.items()
        ),
    )


def _described(
    topic: MetadataResponseTopic,
    elrs: Mapping[tuple[str, int], DescribeTopicPartitionsResponsePartition],
) -> TopicDescription:
    none = DescribeTopicPartitionsResponsePartition()
    of_partition = {
        each.partition_index: elrs.get((topic.name or "", each.partition_index), none)
        for each in topic.partitions
    }
    return TopicDescription(
        name=topic.name or "",
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionView(
                partition=each.partition_index,
                leader_id=each.leader_id,
                leader_epoch=each.leader_epoch,
                replicas=each.replica_nodes,
                isr=each.isr_nodes,
                offline_replicas=each.offline_replicas,
                elr=of_partition[each.partition_index].eligible_leader_replicas or (),
                last_known_elr=of_partition[each.partition_index].last_known_elr or (),
                error=each.error_code,
            )
            for each in sorted(topic.partitions, key=lambda one: one.partition_index)
        ),
    )

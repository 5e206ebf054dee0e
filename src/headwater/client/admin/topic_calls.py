"""Topics, partitions and records: make, list, describe, grow, delete, move, elect."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.client.admin.calls import Calls, by_topic, checked, refusal, settle
from headwater.client.admin.descriptions import NewTopic, Reassignment, TopicDescription
from headwater.client.cluster_metadata import PartitionView
from headwater.client.errors import KafkaError, error_for
from headwater.model.ids import TopicId, TopicPartition
from headwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from headwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from headwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

PREFERRED, UNCLEAN = 0, 1


class TopicCalls(Calls):
    """See the module."""

    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, TopicId]:
        """Make topics; the ids of the new ones, which old brokers and a mere check leave zero."""
        deadline_ms = self._deadline_ms(timeout)
        wanted = list(topics)
        request = CreateTopicsRequest(
            topics=tuple(_creatable(each) for each in wanted),
            timeout_ms=self._left_ms(deadline_ms),
            validate_only=validate_only,
        )
        response = await self._of_controller(
            request,
            CreateTopicsResponse,
            deadline_ms,
            lambda answer: [each.error_code for each in answer.topics],
        )
        return settle(
            {each.name: each.topic_id for each in response.topics if not each.error_code},
            {
                each.name: refusal(each.error_code, each.error_message, each.name)
                for each in response.topics
                if each.error_code
            },
            asked=[each.name for each in wanted],
        )

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> TopicId:
        """Make one topic."""
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
        """Delete topics, each by its name or by its id."""
        deadline_ms = self._deadline_ms(timeout)
        chosen = list(topics)
        states = tuple(
            DeleteTopicState(topic_id=each)
            if isinstance(each, TopicId)
            else DeleteTopicState(name=each)
            for each in chosen
        )
        response = await self._of_controller(
            DeleteTopicsRequest(topics=states, timeout_ms=self._left_ms(deadline_ms)),
            DeleteTopicsResponse,
            deadline_ms,
            lambda answer: [each.error_code for each in answer.responses],
        )
        names = {each: each.name or str(each.topic_id) for each in response.responses}
        by_id = {str(each.topic_id) for each in response.responses}
        settle(
            {names[each]: None for each in response.responses if not each.error_code},
            {
                names[each]: refusal(each.error_code, each.error_message, names[each])
                for each in response.responses
                if each.error_code
            },
            # Who asks by the id is told the name.
            asked=[str(each) for each in chosen if str(each) not in by_id],
        )

    async def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> list[str]:
        """The names of all topics, in order."""
        response = await self._of_any(
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
        """Topics and their partitions."""
        names = list(topics)
        wanted = tuple(MetadataRequestTopic(name=name) for name in names)
        response = await self._of_any(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False),
            MetadataResponse,
            self._deadline_ms(timeout),
        )
        return settle(
            {each.name or "": _described(each) for each in response.topics if not each.error_code},
            {
                each.name or "": refusal(each.error_code, None, each.name)
                for each in response.topics
                if each.error_code
            },
            asked=names,
        )

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Let topics grow to so many partitions in all; `assignments` has brokers for the new."""
        deadline_ms = self._deadline_ms(timeout)
        chosen = assignments or {}
        request = CreatePartitionsRequest(
            topics=tuple(
                CreatePartitionsTopic(
                    name=name,
                    count=count,
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
        response = await self._of_controller(
            request,
            CreatePartitionsResponse,
            deadline_ms,
            lambda answer: [each.error_code for each in answer.results],
        )
        settle(
            {each.name: None for each in response.results if not each.error_code},
            {
                each.name: refusal(each.error_code, each.error_message, each.name)
                for each in response.results
                if each.error_code
            },
            asked=counts,
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete what lies before each offset (-1: everything). The first offsets that are left."""
        deadline_ms = self._deadline_ms(timeout)
        offsets = {TopicPartition(*each): offset for each, offset in before.items()}

        async def ask(
            node_id: int, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, int | KafkaError]:
            request = DeleteRecordsRequest(
                topics=tuple(
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=tuple(
                            DeleteRecordsPartition(
                                partition_index=number,
                                offset=offsets[TopicPartition(topic, number)],
                            )
                            for number in numbers
                        ),
                    )
                    for topic, numbers in by_topic(partitions).items()
                ),
                timeout_ms=self._left_ms(deadline_ms),
            )
            response = await self._call(node_id, request, DeleteRecordsResponse)
            answers = {
                TopicPartition(topic.name, each.partition_index): each
                for topic in response.topics
                for each in topic.partitions
            }
            return {
                place: refusal(each.error_code, None, place)
                if each.error_code
                else each.low_watermark
                for place, each in answers.items()
            }

        return await self._of_leaders(offsets, ask, deadline_ms)

    async def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout: float | None = None,
    ) -> None:
        """Move partitions to other brokers; None calls a move off."""
        deadline_ms = self._deadline_ms(timeout)
        wanted = {TopicPartition(*each): brokers for each, brokers in replicas.items()}
        topics = []
        for name, numbers in by_topic(wanted).items():
            partitions = []
            for number in numbers:
                brokers = wanted[TopicPartition(name, number)]
                partitions.append(
                    ReassignablePartition(
                        partition_index=number,
                        replicas=None if brokers is None else tuple(brokers),
                    )
                )
            topics.append(ReassignableTopic(name=name, partitions=tuple(partitions)))
        response = await self._of_controller(
            AlterPartitionReassignmentsRequest(
                topics=tuple(topics), timeout_ms=self._left_ms(deadline_ms)
            ),
            AlterPartitionReassignmentsResponse,
            deadline_ms,
            lambda answer: [answer.error_code],
        )
        checked(response.error_code, response.error_message, "reassignment")
        outcomes = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in response.responses
            for each in topic.partitions
        }
        settle(
            {place: None for place, each in outcomes.items() if not each.error_code},
            {
                place: refusal(each.error_code, each.error_message, place)
                for place, each in outcomes.items()
                if each.error_code
            },
            asked=wanted,
        )

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, Reassignment]:
        """Which partitions are on the move, of these or of all."""
        deadline_ms = self._deadline_ms(timeout)
        topics = None
        if partitions is not None:
            topics = tuple(
                ListPartitionReassignmentsTopics(name=name, partition_indexes=tuple(numbers))
                for name, numbers in by_topic(partitions).items()
            )
        response = await self._of_controller(
            ListPartitionReassignmentsRequest(topics=topics, timeout_ms=self._left_ms(deadline_ms)),
            ListPartitionReassignmentsResponse,
            deadline_ms,
            lambda answer: [answer.error_code],
        )
        checked(response.error_code, response.error_message, "reassignments")
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                replicas=each.replicas,
                adding_replicas=each.adding_replicas,
                removing_replicas=each.removing_replicas,
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        is_unclean: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Have the preferred replicas lead, or any that lives. What came of it, for each partition.

        That an election was not needed is among the errors, because it says that nothing changed.
        """
        deadline_ms = self._deadline_ms(timeout)
        topics = None
        if partitions is not None:
            topics = tuple(
                TopicPartitions(topic=name, partitions=tuple(numbers))
                for name, numbers in by_topic(partitions).items()
            )
        response = await self._of_controller(
            ElectLeadersRequest(
                election_type=UNCLEAN if is_unclean else PREFERRED,
                topic_partitions=topics,
                timeout_ms=self._left_ms(deadline_ms),
            ),
            ElectLeadersResponse,
            deadline_ms,
            lambda answer: [answer.error_code],
        )
        checked(response.error_code, None, "election")
        return {
            TopicPartition(topic.topic, each.partition_id): error_for(
                each.error_code, each.error_message
            )
            if each.error_code
            else None
            for topic in response.replica_election_results
            for each in topic.partition_result
        }


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(brokers))
            for number, brokers in topic.assignments.items()
        ),
        configs=tuple(
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ),
    )


def _described(topic: MetadataResponseTopic) -> TopicDescription:
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
                error=each.error_code,
            )
            for each in sorted(topic.partitions, key=lambda one: one.partition_index)
        ),
    )

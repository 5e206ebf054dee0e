"""Delete records, reassign partitions and elect leaders."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.client.admin.admin_calls import Calls, by_topic, checked, outcome, results_of
from headwater.client.admin.descriptions import Reassignment
from headwater.client.argument_checks import topic_partition, topic_partitions, whole_number
from headwater.client.errors import KafkaError, error_for
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from headwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

PREFERRED, UNCLEAN = 0, 1


class PartitionCalls(Calls):
    """The partition methods of the admin client."""

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete records before each offset (-1: all); return the new log start offsets."""
        deadline_ms = self._deadline_ms(timeout)
        offsets = {
            topic_partition(each): whole_number(offset, f"the offset of {each}", least=-1)
            for each, offset in before.items()
        }

        async def call(
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
                where: outcome(each.error_code, None, where, each.low_watermark)
                for where, each in answers.items()
            }

        return await self._call_leaders(offsets, call, deadline_ms)

    async def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout: float | None = None,
    ) -> None:
        """Reassign partitions to brokers; None cancels a reassignment."""
        deadline_ms = self._deadline_ms(timeout)
        wanted = {topic_partition(each): brokers for each, brokers in replicas.items()}
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
        response = await self._call_controller(
            AlterPartitionReassignmentsRequest(
                topics=tuple(topics), timeout_ms=self._left_ms(deadline_ms)
            ),
            AlterPartitionReassignmentsResponse,
            deadline_ms,
            lambda answer: [answer.error_code],
        )
        checked(response.error_code, response.error_message, "reassignment")
        answers = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in response.responses
            for each in topic.partitions
        }
        results_of(
            {
                where: outcome(each.error_code, each.error_message, where, None)
                for where, each in answers.items()
            },
            requested=wanted,
        )

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, Reassignment]:
        """Reassignments in progress, of these partitions or of all."""
        deadline_ms = self._deadline_ms(timeout)
        topics = None
        if partitions is not None:
            topics = tuple(
                ListPartitionReassignmentsTopics(name=name, partition_indexes=tuple(numbers))
                for name, numbers in by_topic(topic_partitions(partitions)).items()
            )
        response = await self._call_controller(
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
        """Elect the preferred leaders, or with `is_unclean` any live replica.

        Returns an error or None per partition. ELECTION_NOT_NEEDED means that nothing changed.
        """
        deadline_ms = self._deadline_ms(timeout)
        topics = None
        if partitions is not None:
            topics = tuple(
                TopicPartitions(topic=name, partitions=tuple(numbers))
                for name, numbers in by_topic(topic_partitions(partitions)).items()
            )
        response = await self._call_controller(
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

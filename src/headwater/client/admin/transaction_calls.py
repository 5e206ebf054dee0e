"""Describe and abort transactions, describe and fence producers."""

from collections.abc import Iterable

from headwater.client.admin.admin_calls import (
    TRANSACTION,
    Calls,
    by_topic,
    checked,
    error_of,
    only,
    outcome,
)
from headwater.client.admin.descriptions import (
    FencedProducer,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from headwater.client.argument_checks import several, topic_partition, topic_partitions
from headwater.client.errors import KafkaError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from headwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from headwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class TransactionCalls(Calls):
    """The transaction methods of the admin client."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all coordinators."""
        request = ListTransactionsRequest(
            state_filters=tuple(several(states, "states")),
            producer_id_filters=tuple(several(producer_ids, "producer_ids")),
            duration_filter=longer_than_ms,
        )
        answers = await self._call_all(
            request,
            ListTransactionsResponse,
            self._deadline_ms(timeout),
            lambda answer: answer.error_code,
        )
        found = {
            each.transactional_id: TransactionListing(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
            )
            for answer in answers
            for each in answer.transaction_states
        }
        return [found[each] for each in sorted(found)]

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """The states of transactional ids and the partitions in their transactions."""
        deadline_ms = self._deadline_ms(timeout)
        return await self._for_each(
            several(transactional_ids, "transactional_ids"),
            lambda each: self._describe_transaction(each, deadline_ms),
        )

    async def _describe_transaction(
        self, transactional_id: str, deadline_ms: int
    ) -> TransactionDescription:
        answer = await self._call_coordinator(
            TRANSACTION,
            transactional_id,
            DescribeTransactionsRequest(transactional_ids=(transactional_id,)),
            DescribeTransactionsResponse,
            deadline_ms,
            lambda answer: only(answer.transaction_states).error_code,
        )
        state = only(answer.transaction_states)
        checked(state.error_code, None, transactional_id)
        start_time_ms = state.transaction_start_time_ms
        return TransactionDescription(
            transactional_id=transactional_id,
            coordinator_id=await self._cluster.coordinator(
                TRANSACTION, transactional_id, deadline_ms=deadline_ms
            ),
            state=state.transaction_state,
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            timeout_ms=state.transaction_timeout_ms,
            start_time_ms=start_time_ms if start_time_ms >= 0 else None,
            partitions=tuple(
                TopicPartition(topic.topic, number)
                for topic in state.topics
                for number in topic.partitions
            ),
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producer state of the partition leaders."""

        async def call(
            node_id: int, theirs: list[TopicPartition]
        ) -> dict[TopicPartition, list[ProducerDescription] | KafkaError]:
            request = DescribeProducersRequest(
                topics=tuple(
                    TopicRequest(name=name, partition_indexes=tuple(numbers))
                    for name, numbers in by_topic(theirs).items()
                )
            )
            answer = await self._call(node_id, request, DescribeProducersResponse)
            described = {
                TopicPartition(topic.name, each.partition_index): each
                for topic in answer.topics
                for each in topic.partitions
            }
            return {
                where: outcome(
                    each.error_code,
                    each.error_message,
                    where,
                    [_producer(one) for one in each.active_producers],
                )
                for where, each in described.items()
            }

        wanted = topic_partitions(partitions)
        return await self._call_leaders(wanted, call, self._deadline_ms(timeout))

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fence the producers of transactional ids and abort their open transactions.

        Returns the new producer ids and epochs. An unknown transactional id is created.
        """
        deadline_ms = self._deadline_ms(timeout)
        return await self._for_each(
            several(transactional_ids, "transactional_ids"),
            lambda each: self._fence_producer(each, deadline_ms),
        )

    async def _fence_producer(self, transactional_id: str, deadline_ms: int) -> FencedProducer:
        answer = await self._call_coordinator(
            TRANSACTION,
            transactional_id,
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=self._settings.request_timeout_ms,
            ),
            InitProducerIdResponse,
            deadline_ms,
            # CONCURRENT_TRANSACTIONS is retried while the open transaction is being aborted.
            lambda answer: answer.error_code,
        )
        checked(answer.error_code, None, transactional_id)
        if answer.producer_id < 0:
            text = "the response has no producer id"
            raise error_of(ErrorCode.UNKNOWN_SERVER_ERROR, text, transactional_id)
        return FencedProducer(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
    ) -> None:
        """Write an ABORT marker for a hanging transaction (KIP-664).

        Abort a transaction that its coordinator knows with `fence_producers` instead.
        """
        where = topic_partition(partition)
        topic = WritableTxnMarkerTopic(name=where.topic, partition_indexes=(where.partition,))
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=(topic,),
            coordinator_epoch=coordinator_epoch,
        )

        async def call(
            node_id: int, _: list[TopicPartition]
        ) -> dict[TopicPartition, KafkaError | None]:
            answer = await self._call(
                node_id, WriteTxnMarkersRequest(markers=(marker,)), WriteTxnMarkersResponse
            )
            return {
                TopicPartition(each.name, one.partition_index): outcome(
                    one.error_code, None, where, None
                )
                for result in answer.markers
                for each in result.topics
                for one in each.partitions
            }

        await self._call_leaders([where], call, self._deadline_ms(timeout))


def _producer(state: ProducerState) -> ProducerDescription:
    start_offset = state.current_txn_start_offset
    return ProducerDescription(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_start_offset=start_offset if start_offset >= 0 else None,
    )

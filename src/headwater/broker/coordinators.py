"""The coordinators of a broker, and what they need of each other: put together in one place."""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.broker.group_coordinator import GroupCoordinator
from headwater.broker.marker_writing import MarkerWriting
from headwater.broker.producer_id_block import ProducerIdBlock
from headwater.broker.transaction_coordinator import TransactionCoordinator
from headwater.broker.transaction_questions import TransactionQuestions
from headwater.cluster.colleagues import Colleagues
from headwater.cluster.effective import StaticConfig
from headwater.cluster.image import ClusterImage
from headwater.model.ports import Clock, Dice
from headwater.replication.deadlines import Deadlines
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.storage.executor import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinators:
    """Groups, transactions, and what asks for them and writes for them."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    questions: TransactionQuestions
    markers: MarkerWriting


def new_coordinators(
    static: StaticConfig,
    *,
    clock: Clock,
    dice: Dice,
    executor: Executor,
    deadlines: Deadlines,
    partitions: HostedPartitions,
    producer_ids: ProducerIdBlock,
    image: Callable[[], ClusterImage],
    colleagues: Colleagues | None = None,
) -> Coordinators:
    """Without `colleagues` there are no other brokers."""
    groups = GroupCoordinator(
        static,
        clock=clock,
        dice=dice,
        executor=executor,
        deadlines=deadlines,
        partitions=partitions,
        image=image,
    )
    markers = MarkerWriting(
        partitions=partitions,
        groups=groups,
        clock=clock,
        deadlines=deadlines,
        timeout_ms=static.settings.request_timeout_ms,
    )
    transactions = TransactionCoordinator(
        static,
        clock=clock,
        executor=executor,
        deadlines=deadlines,
        partitions=partitions,
        image=image,
        producer_ids=producer_ids,
        markers=markers,
        colleagues=colleagues,
    )
    questions = TransactionQuestions(
        static,
        coordinator=transactions,
        clock=clock,
        deadlines=deadlines,
        partitions=partitions,
        image=image,
        colleagues=colleagues,
    )
    return Coordinators(
        groups=groups, transactions=transactions, questions=questions, markers=markers
    )

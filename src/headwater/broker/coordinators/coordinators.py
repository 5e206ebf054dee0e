"""Create the group and transaction coordinators and connect them."""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.broker.coordinators.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from headwater.broker.coordinators.group_coordinator import GroupCoordinator
from headwater.broker.coordinators.producer_id_manager import ProducerIdManager
from headwater.broker.coordinators.transaction_coordinator import TransactionCoordinator
from headwater.broker.coordinators.transaction_marker_writer import TransactionMarkerWriter
from headwater.common.ports import Clock, Random
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.io.executor import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinators:
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    add_partitions_to_txn_manager: AddPartitionsToTxnManager
    markers: TransactionMarkerWriter


def new_coordinators(
    static: StaticConfig,
    *,
    clock: Clock,
    rng: Random,
    executor: Executor,
    timer: Timer,
    partitions: ReplicaManager,
    producer_ids: ProducerIdManager,
    image: Callable[[], ClusterImage],
    inter_broker_client: InterBrokerClient | None = None,
) -> Coordinators:
    """Create the coordinators; `inter_broker_client` is None for a standalone broker."""
    groups = GroupCoordinator(
        static,
        clock=clock,
        rng=rng,
        executor=executor,
        timer=timer,
        partitions=partitions,
        image=image,
    )
    markers = TransactionMarkerWriter(
        partitions=partitions,
        groups=groups,
        clock=clock,
        timer=timer,
        timeout_ms=static.settings.request_timeout_ms,
    )
    transactions = TransactionCoordinator(
        static,
        clock=clock,
        executor=executor,
        timer=timer,
        partitions=partitions,
        image=image,
        producer_ids=producer_ids,
        markers=markers,
        inter_broker_client=inter_broker_client,
    )
    questions = AddPartitionsToTxnManager(
        static,
        coordinator=transactions,
        clock=clock,
        timer=timer,
        partitions=partitions,
        image=image,
        inter_broker_client=inter_broker_client,
    )
    return Coordinators(
        groups=groups,
        transactions=transactions,
        add_partitions_to_txn_manager=questions,
        markers=markers,
    )

"""Whole brokers that form a cluster on ZooKeeper or a model of it, in virtual time.

Only the network, the store, the disks and time are the test's: see `lab_node`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from headwater.broker.inter_broker.liveness import ConnectionLiveness
from headwater.broker.node.cluster_membership import ClusterMembership
from headwater.broker.node.forwarding_manager import MembershipForwardingManager
from headwater.broker.requests.dispatch import Dispatch
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import BrokerEndpoint, ClusterImage
from headwater.metadata.metadata_cache import MetadataCache
from headwater.metadata.ports.metadata_store import Registration
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.fake_network import FakeNetwork
from tests.simulation.fakes.shared_metadata_store import SESSION_TIMEOUT_MS, SharedStore
from tests.simulation.fakes.timed_zookeeper import TimedZooKeeper
from tests.simulation.fakes.virtual_time import VirtualTime
from tests.simulation.labs.cluster_lab import CLUSTER_ID
from tests.simulation.labs.lab_node import DIRECTORIES, LISTENER, LabNode

__all__ = ["DIRECTORIES", "LISTENER", "ClusterNodeLab", "MemberNode"]

_LEAVE_TRIES: Final = 3
_LEAVE_BACKOFF_MS: Final = 300


class ClusterNodeLab:
    """A cluster of brokers by number."""

    def __init__(
        self,
        count: int,
        *,
        seed: int = 1,
        texts: Mapping[str, str] | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        most_skew_ms: int = 0,
        has_zookeeper: bool = False,
    ) -> None:
        """Clocks differ from the true time by at most this much, each by its own amount.

        `has_zookeeper`: the shipped store on a ZooKeeper in memory, instead of a model of both.
        """
        self.time = VirtualTime(random.Random(seed))
        new_store = TimedZooKeeper if has_zookeeper else SharedStore
        self.store: TimedZooKeeper | SharedStore = new_store(
            self.time, session_timeout_ms=session_timeout_ms
        )
        self.network = FakeNetwork(self.time)
        skews = random.Random(f"skew {seed}")
        self.nodes = [
            MemberNode(
                self,
                NodeId(number),
                texts or {},
                skew_ms=skews.randint(-most_skew_ms, most_skew_ms),
            )
            for number in range(count)
        ]
        for node in self.nodes:
            node.start()
        self.run(1_000)

    @property
    def controller(self) -> MemberNode:
        (found,) = [node for node in self.nodes if node.is_up and node.membership.controller]
        return found

    @property
    def others(self) -> list[MemberNode]:
        """Live brokers that are not the controller."""
        return [node for node in self.nodes if node.is_up and not node.membership.controller]

    def run(self, span_ms: int) -> None:
        self.time.run_for(span_ms)


class MemberNode(LabNode):
    """One broker of a cluster with a store."""

    def __init__(
        self, lab: ClusterNodeLab, node_id: NodeId, texts: Mapping[str, str], *, skew_ms: int = 0
    ) -> None:
        super().__init__(lab.time, lab.network, node_id, texts, skew_ms=skew_ms)
        self._lab = lab

    @property
    def image(self) -> ClusterImage:
        return self.membership.metadata_cache.image

    @property
    def broker_epoch(self) -> int:
        return self.membership.broker_epoch

    def start(self) -> None:
        self._begin()
        self.session = self._lab.store.session(self.node_id, self.stall)
        self._build(ClusterImage(cluster_id=CLUSTER_ID))
        self.session.listen(self.membership)
        self.membership.register(
            Registration(
                node_id=self.node_id,
                directory_id=f"directory-{self.node_id}",
                endpoints=(BrokerEndpoint(listener=LISTENER, host="h", port=int(self.node_id)),),
            ),
            then=self._open,
        )
        self.session.read_configs(then=self.membership.metadata_cache.store_changed)
        self._start_ticks()

    def crash(self, *, loses_power: bool = False) -> None:
        self._end()
        self.session.crash()
        self._end_on_disk(loses_power=loses_power)

    def stop(self) -> None:
        self._take_leave(_LEAVE_TRIES)

    def close(self) -> None:
        """A clean stop without controlled shutdown."""
        self.membership.close()
        self._close_logs()
        self.session.close()
        self._end()
        # Files that a failed directory left open are closed with the process.
        self.disk.process_crash()

    def freeze(self) -> None:
        """The process does not run, and its session is not kept alive."""
        self.stall.begin()
        self.session.cut()

    def thaw(self) -> None:
        self.session.heal()
        self.stall.end()

    def endpoint(self, node_id: NodeId) -> BrokerEndpoint | None:
        """`BrokerDirectory`, as in `cluster_node`."""
        leading = self.membership.controller
        image = self.image if leading is None else leading.image
        broker = image.brokers.get(node_id)
        return None if broker is None else broker.endpoint(LISTENER)

    def _build(self, image: ClusterImage) -> None:
        directories = self._open_logs(image, self.network_client)
        self.membership = ClusterMembership(
            static=self.static,
            store=self.session,
            inter_broker_client=self.inter_broker_client,
            liveness=ConnectionLiveness(
                directory=self,
                dial=self.network_client.dial,
                clock=self.clock,
                call_later=self._later,
            ),
            metadata_cache=MetadataCache(
                image, self._told, node_id=self.node_id, log_dir_error=self.partitions.log_dir_error
            ),
            call_later=self._later,
            fatal=self.fatal.append,
        )
        self.member = MembershipForwardingManager(
            self.static,
            membership=self.membership,
            inter_broker_client=self.inter_broker_client,
            clock=self.clock,
            rng=self.rng,
            call_later=self._later,
        )
        self.broker = self._broker(directories, self.member)
        self.dispatch = Dispatch(self.broker, brokers_listener=LISTENER)

    def _take_leave(self, tries: int) -> None:
        def again(_: HeadwaterError | None = None) -> None:
            self._later(_LEAVE_BACKOFF_MS, lambda: self._take_leave(tries - 1))

        def answered(response: Message) -> None:
            assert isinstance(response, ControlledShutdownResponse)
            if response.error_code or response.remaining_partitions:
                again()
            else:
                self.close()

        if not tries:
            self.close()
            return
        request = ControlledShutdownRequest(
            broker_id=self.node_id, broker_epoch=self.membership.broker_epoch
        )
        self.member.send_to_controller(request, then=answered, on_error=again)

    def _directory_failed(self) -> None:
        if self.partitions.handle_failed_log_dirs():
            self.session.report_failed_directory(self.node_id)

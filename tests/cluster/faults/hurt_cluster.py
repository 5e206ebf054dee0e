"""Three nodes as processes, behind links that can be cut, and a ZooKeeper if they need one.

Without ZooKeeper each node is a broker and a controller, so every fault of a broker is one of a
controller, and the plan also has faults of whichever node is the active controller.

Note: clients reach brokers directly. So an isolated broker is still reachable for clients, which is
when a stale leader could do harm.
"""

import os
import re
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headwater.broker.broker_server.local_cluster import LocalCluster
from headwater.common.exceptions import BrokerDidNotStart
from headwater.common.settings.setting_types import Value
from headwater.metadata_store.raft.storage_formatter import InitialController, random_uuid
from headwater.network.free_ports import free_ports
from headwater.network.system_clock import SystemRandom
from headwater.testing.embedded_broker import EmbeddedBroker
from headwater.testing.embedded_cluster import EmbeddedZooKeeper
from tests.cluster.faults.fault_plan import BROKERS, LAG_MS, SESSION_MS, Fault, Kind, Store
from tests.cluster.faults.links import HOST, Links

TIMEOUT_S: Final = 240

_SETTINGS: Final[dict[str, Value]] = {
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "replica.lag.time.max.ms": LAG_MS,
    # Many segments, so that faults also hit segment rolls.
    "log.segment.bytes": 1_048_576,
    "log.retention.ms": -1,
    "controlled.shutdown.max.retries": 3,
    "controlled.shutdown.retry.backoff.ms": 500,
    "inter.broker.listener.name": "INNER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
_WITH_ZOOKEEPER: Final[dict[str, Value]] = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    # A start may wait for longer than a session timeout, until ZooKeeper is back.
    "zookeeper.connection.timeout.ms": 60_000,
}
_WITH_QUORUM: Final[dict[str, Value]] = {
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": SESSION_MS // 6,
    # So short that pauses and cuts end leaderships of the quorum.
    "controller.quorum.fetch.timeout.ms": SESSION_MS // 2,
    # Small, so that nodes also catch up with snapshots.
    "metadata.log.max.record.bytes.between.snapshots": 20_000,
    "metadata.max.retention.bytes": 60_000,
    "metadata.log.segment.bytes": 40_000,
}
_LOOK_S: Final = 0.05
_LEADER: Final = re.compile(r"Leader of the metadata quorum: leader=(\d+) epoch=(\d+)")


class HurtCluster:
    """Runs as a context manager. When `hurt` returns, all faults are over and all processes up."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._store = store
        self._links = Links()
        self.zookeeper = EmbeddedZooKeeper(timeout_s=TIMEOUT_S)
        self.brokers: list[EmbeddedBroker] = []
        self.restarts = 0
        # Fault durations are the point here; the end of the cluster ends them too.
        self._is_over = threading.Event()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self._addresses)

    def __enter__(self) -> Self:
        self._links.__enter__()
        ports = free_ports(HOST, 3 * len(BROKERS))
        self._addresses = [f"{HOST}:{ports[each]}" for each in BROKERS]
        inner_ports, controller_ports = ports[len(BROKERS) :], ports[2 * len(BROKERS) :]
        if self._store is Store.ZOOKEEPER:
            self.zookeeper.start()
            settings = [self._with_zookeeper(each) for each in BROKERS]
        else:
            settings = self._with_quorum(controller_ports)
        self.brokers = [
            self._new_broker(each, ports[each], inner_ports[each], settings[each])
            for each in BROKERS
        ]
        with ThreadPoolExecutor(len(BROKERS)) as together:
            list(together.map(EmbeddedBroker.start, self.brokers))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        for number, broker in enumerate(self.brokers):
            (self._folder / f"broker-{number}.log").write_text(broker.log_text)
            broker.close()
        self.zookeeper.close()
        self._links.__exit__(kind, error, traceback)

    def hurt(self, faults: Sequence[Fault]) -> None:
        """Inject faults concurrently, and return when the last one is over."""
        with ThreadPoolExecutor(len(faults)) as together:
            list(together.map(self._hurt, faults))

    def rest(self, seconds: float) -> None:
        """Leave clients and brokers undisturbed for a while."""
        self._is_over.wait(seconds)

    def stop(self) -> None:
        """Stop all brokers cleanly, one after the other."""
        for broker in self.brokers:
            broker.stop()

    def data_of(self, number: int) -> Path:
        return self._folder / f"broker-{number}"

    def _new_broker(
        self, number: int, port: int, inner_port: int, of_store: dict[str, Value]
    ) -> EmbeddedBroker:
        """Listeners of the store's settings come after those of the broker."""
        told_port = self._links.to_node(number, inner_port)
        listeners = [f"PLAINTEXT://{HOST}:{port}", f"INNER://{HOST}:{inner_port}"]
        told = [f"PLAINTEXT://{HOST}:{port}", f"INNER://{HOST}:{told_port}"]
        settings: dict[str, Value] = {**_SETTINGS, **of_store, "node.id": number}
        for name, own in (("listeners", listeners), ("advertised.listeners", told)):
            further = [str(of_store[name])] if name in of_store else []
            settings[name] = ",".join([*own, *further])
        return EmbeddedBroker(settings, data_directory=self.data_of(number), timeout_s=TIMEOUT_S)

    def _with_zookeeper(self, number: int) -> dict[str, Value]:
        port = int(self.zookeeper.connect.rpartition(":")[2])
        connect = f"{HOST}:{self._links.to_zookeeper(number, port)}"
        return {**_WITH_ZOOKEEPER, "zookeeper.connect": connect}

    def _with_quorum(self, ports: Sequence[int]) -> list[dict[str, Value]]:
        """Format all nodes as voters, and return their settings."""
        random = SystemRandom()
        voters = tuple(
            InitialController(
                node_id=each,
                host=HOST,
                port=self._links.to_node(each, ports[each], of_quorum=True),
                directory_id=random_uuid(random),
            )
            for each in BROKERS
        )
        cluster = LocalCluster(str(random_uuid(random)), voters)
        found = []
        for each in BROKERS:
            cluster.format(each, self.data_of(each))
            found.append(
                {
                    **cluster.settings(each, ""),
                    **_WITH_QUORUM,
                    "listeners": f"CONTROLLER://{HOST}:{ports[each]}",
                    "advertised.listeners": f"CONTROLLER://{HOST}:{voters[each].port}",
                }
            )
        return found

    def active_controller(self) -> int:
        """Return the leader of the newest epoch of the quorum that a node has logged."""
        found = [
            (int(epoch), int(leader))
            for broker in self.brokers
            for leader, epoch in _LEADER.findall(broker.log_text)
        ]
        return max(found)[1]

    def _hurt(self, fault: Fault) -> None:
        self._is_over.wait(fault.delay_s)
        ways: dict[Kind, Callable[[Fault], None]] = {
            Kind.KILL: self._kill,
            Kind.SLEEP: self._sleep,
            Kind.RESTART: self._restart,
            Kind.DISK_FULL: self._fill_disk,
            Kind.CUT: self._cut,
            Kind.ZOOKEEPER_KILLED: self._restart_zookeeper,
            Kind.ZOOKEEPER_RESTART: self._restart_zookeeper,
            Kind.CONTROLLER_KILLED: lambda fault: self._kill(self._of_controller(fault)),
            Kind.CONTROLLER_SLEEP: lambda fault: self._sleep(self._of_controller(fault)),
            Kind.CONTROLLER_RESTART: lambda fault: self._restart(self._of_controller(fault)),
        }
        ways[fault.kind](fault)

    def _of_controller(self, fault: Fault) -> Fault:
        return replace(fault, victims=(self.active_controller(),))

    def _kill(self, fault: Fault) -> None:
        victims = [self.brokers[each] for each in fault.victims]
        for each in victims:
            each.kill()
        self._is_over.wait(fault.lasting_s)
        # Together, because one alone may have no majority to start with.
        with ThreadPoolExecutor(len(victims)) as together:
            list(together.map(self._start, victims))

    def _sleep(self, fault: Fault) -> None:
        pids = [self.brokers[each].pid for each in fault.victims]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self._is_over.wait(fault.lasting_s)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def _restart(self, fault: Fault) -> None:
        for each in fault.victims:
            self.brokers[each].stop()
            self._is_over.wait(fault.lasting_s)
            self._start(self.brokers[each])

    def _fill_disk(self, fault: Fault) -> None:
        """Limit the size of this broker's files; writes beyond it fail."""
        broker = self.brokers[fault.victims[0]]
        sizes = [each.stat().st_size for each in _logs_in(self.data_of(fault.victims[0]))]
        limit = fault.room_bytes and max(sizes, default=0) // 2 + fault.room_bytes
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (limit, unlimited))
        self._wait(fault.lasting_s, lambda: not broker.is_running)
        if broker.is_running:
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
            # Whatever it makes of that, an operator would restart it.
            with suppress(ProcessLookupError):
                broker.kill()
        self._start(broker)

    def _cut(self, fault: Fault) -> None:
        for each in fault.links:
            self._links.cut(each, fault.cut)
        self._is_over.wait(fault.lasting_s)
        for each in fault.links:
            if fault.drops:
                self._links.drop(each)
            self._links.cut(each, None)

    def _restart_zookeeper(self, fault: Fault) -> None:
        if fault.kind is Kind.ZOOKEEPER_KILLED:
            os.kill(self.zookeeper.server_pid, signal.SIGKILL)
        self.zookeeper.stop()
        self._is_over.wait(fault.lasting_s)
        self.zookeeper.start()

    def _start(self, broker: EmbeddedBroker) -> None:
        """Retry: it does not start while its metadata store is unavailable for long."""
        self.restarts += 1
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                broker.start()
            except BrokerDidNotStart:
                if time.monotonic() > until:
                    raise
            else:
                return

    def _wait(self, seconds: float, what: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while not what() and time.monotonic() < until:
            self._is_over.wait(_LOOK_S)


def _logs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.log"))


def replica_bytes(folder: Path, partition: str) -> bytes:
    """Return all batches of a broker's replica, however its segments are split."""
    return b"".join(each.read_bytes() for each in sorted((folder / partition).glob("*.log")))

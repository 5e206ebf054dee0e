"""Three brokers and a ZooKeeper as processes, behind links that can be cut.

Note: clients reach brokers directly. So an isolated broker is still reachable for clients, which is
when a stale leader could do harm.
"""

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headwater.common.exceptions import BrokerDidNotStart
from headwater.common.settings.setting_types import Value
from headwater.network.free_ports import free_ports
from headwater.testing.embedded_broker import EmbeddedBroker
from headwater.testing.embedded_cluster import EmbeddedZooKeeper
from tests.cluster.faults.fault_plan import BROKERS, LAG_MS, SESSION_MS, Fault, Kind
from tests.cluster.faults.links import HOST, Links

TIMEOUT_S: Final = 240

_SETTINGS: Final[dict[str, Value]] = {
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "zookeeper.session.timeout.ms": SESSION_MS,
    # A start may wait for longer than a session timeout, until ZooKeeper is back.
    "zookeeper.connection.timeout.ms": 60_000,
    "replica.lag.time.max.ms": LAG_MS,
    # Many segments, so that faults also hit segment rolls.
    "log.segment.bytes": 1_048_576,
    "log.retention.ms": -1,
    "controlled.shutdown.max.retries": 3,
    "controlled.shutdown.retry.backoff.ms": 500,
    "inter.broker.listener.name": "INNER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
}
_LOOK_S: Final = 0.05


class HurtCluster:
    """Runs as a context manager. When `hurt` returns, all faults are over and all processes up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
        self.zookeeper.start()
        ports = free_ports(HOST, 2 * len(BROKERS))
        self._addresses = [f"{HOST}:{ports[each]}" for each in BROKERS]
        self.brokers = [
            self._new_broker(each, ports[each], ports[len(BROKERS) + each]) for each in BROKERS
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

    def _new_broker(self, number: int, port: int, inner_port: int) -> EmbeddedBroker:
        told_port = self._links.to_broker(number, inner_port)
        zookeeper_port = int(self.zookeeper.connect.rpartition(":")[2])
        settings: dict[str, Value] = {
            **_SETTINGS,
            "node.id": number,
            "listeners": f"PLAINTEXT://{HOST}:{port},INNER://{HOST}:{inner_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port},INNER://{HOST}:{told_port}",
            "zookeeper.connect": f"{HOST}:{self._links.to_zookeeper(number, zookeeper_port)}",
        }
        return EmbeddedBroker(settings, data_directory=self.data_of(number), timeout_s=TIMEOUT_S)

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
        }
        ways[fault.kind](fault)

    def _kill(self, fault: Fault) -> None:
        for each in fault.victims:
            self.brokers[each].kill()
        self._is_over.wait(fault.lasting_s)
        for each in fault.victims:
            self._start(self.brokers[each])

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
        """Retry: it does not start while its ZooKeeper is unavailable for long."""
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

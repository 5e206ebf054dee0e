"""A real cluster for a test: brokers, each a child process, on KRaft or ZooKeeper.

    with EmbeddedCluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.brokers[0].kill()

The first three brokers are also the controllers; of one or two brokers only the first one is. With
`zookeeper=True` the metadata is in a ZooKeeper of the cluster's own, which needs Java.

Note: brokers do not restart by themselves. Call `start` of a killed or stopped broker to restart it
on the same port and data.
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from headwater.broker.broker_server.local_cluster import local_cluster
from headwater.common.settings.setting_types import Value
from headwater.network.free_ports import free_ports
from headwater.testing.embedded_broker import EmbeddedBroker
from headwater.testing.embedded_process import EmbeddedProcess


class EmbeddedCluster:
    """A cluster of processes. Start it with `with` or `start`; `close` ends it."""

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, Value] | None = None,
        *,
        zookeeper: bool = False,
        timeout_s: float = 60,
    ) -> None:
        """Settings have Kafka's names and apply to all brokers. Node ids start at 0."""
        self._is_kraft = not zookeeper
        self._folder: TemporaryDirectory[str] | None = None
        self._settings = dict(settings or {})
        self._timeout_s = timeout_s
        self._count = brokers
        self.zookeeper = EmbeddedZooKeeper(timeout_s=timeout_s)
        self.brokers: list[EmbeddedBroker] = []

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients, host:port,host:port. Stay the same after restarts."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def start(self) -> Self:
        """Return when all brokers serve. `BrokerDidNotStart` has the log of a failed one."""
        if self._is_kraft:
            self.brokers = self._new_kraft_brokers()
        else:
            self.zookeeper.start()
            self.brokers = [self._new_broker(node_id) for node_id in range(self._count)]
        with ThreadPoolExecutor(self._count) as together:
            list(together.map(EmbeddedBroker.start, self.brokers))
        return self

    def close(self) -> None:
        """End all processes and remove their directories. Idempotent."""
        for broker in self.brokers:
            broker.close()
        self.zookeeper.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        is_running = self.zookeeper.is_running or self._folder is not None
        return self if is_running else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _new_kraft_brokers(self) -> list[EmbeddedBroker]:
        self._folder = TemporaryDirectory(prefix="headwater-kraft-")
        folder = Path(self._folder.name)
        cluster = local_cluster(folder, host=_HOST, first_id=0, nodes=self._count)
        found = []
        # Controllers must be known before any node is started, and brokers keep their ports.
        for node_id, port in enumerate(free_ports(_HOST, self._count)):
            data = folder / str(node_id)
            cluster.format(node_id, data)
            listeners = str(self._settings.get("listeners", f"PLAINTEXT://{_HOST}:{port}"))
            settings: dict[str, Value] = {
                **cluster.settings(node_id, listeners),
                **{name: text for name, text in self._settings.items() if name != "listeners"},
            }
            broker = EmbeddedBroker(settings, data_directory=data, timeout_s=self._timeout_s)
            found.append(broker)
        return found

    def _new_broker(self, node_id: int) -> EmbeddedBroker:
        settings: dict[str, Value] = {
            **self._settings,
            "node.id": node_id,
            "zookeeper.connect": self.zookeeper.connect,
        }
        return EmbeddedBroker(settings, timeout_s=self._timeout_s)


_HOST = "127.0.0.1"
_READY = re.compile(r"headwater zookeeper ready on ([^ ]+) \(pid (\d+)")


# A real ZooKeeper for a test: a child process on a free port, with its own directory. A restart
# keeps port, data and sessions.
class EmbeddedZooKeeper(EmbeddedProcess):
    """A ZooKeeper process. Start it with `with` or `start`; `close` ends it."""

    def __init__(self, *, tick_ms: int = 500, timeout_s: float = 60) -> None:
        super().__init__(
            name="ZooKeeper",
            folder_prefix="headwater-zookeeper-",
            log_name="zookeeper.log",
            timeout_s=timeout_s,
        )
        self._tick_ms = tick_ms
        self._address: str | None = None
        self._server_pid = 0

    @property
    def connect(self) -> str:
        """The value for zookeeper.connect. Stays the same after a restart."""
        assert self._address is not None, "ZooKeeper was never started"
        return self._address

    @property
    def server_pid(self) -> int:
        """The pid of the Java process."""
        return self._server_pid

    def _arguments(self, folder: Path) -> list[str]:
        port = "0" if self._address is None else self._address.rpartition(":")[2]
        where = ["--dir", str(folder / "data"), "--port", port]
        return ["zookeeper", *where, "--tick-time", str(self._tick_ms)]

    def _serves(self, line: str) -> None:
        match = _READY.match(line)
        assert match is not None, line
        self._address, self._server_pid = match[1], int(match[2])

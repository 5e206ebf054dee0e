"""Watch znodes: read them again after every change.

A ZooKeeper watch fires once and only says that something changed; each read sets it again.

Note: if a watch fires while a read is in flight, there are two reads. Both report what they find,
in the order of ZooKeeper's responses.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import BrokerRegistration
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)

ErrorListener = Callable[[HeadwaterError], None]


class NodeWatch:
    """Reports one znode's data, None while it does not exist."""

    def __init__(
        self, zk_client: ZooKeeperClient, path: str, *, on_change: Callable[[bytes | None], None]
    ) -> None:
        self._zk_client = zk_client
        self._path = path
        self._on_change = on_change
        self._is_over = False

    def read(self) -> None:
        """Read now and after every change."""
        if not self._is_over:
            self._zk_client.exists(self._path, then=self._exists, on_error=_ignore, watch=self.read)

    def stop(self) -> None:
        self._is_over = True

    def _exists(self, stat: Stat | None) -> None:
        if stat is None:
            self._notify(None)
        else:
            # If it is deleted before this arrives, the watch fires.
            self._zk_client.get(
                self._path, then=lambda data, _: self._notify(data), on_error=_ignore
            )

    def _notify(self, data: bytes | None) -> None:
        if not self._is_over:
            self._on_change(data)


class ChildrenWatch:
    """Reports the sorted names of a znode's children."""

    def __init__(
        self, zk_client: ZooKeeperClient, path: str, *, on_change: Callable[[list[str]], None]
    ) -> None:
        self._zk_client = zk_client
        self._path = path
        self._on_change = on_change
        self._is_over = False

    def read(self) -> None:
        """Read now and after every change."""
        if not self._is_over:
            self._zk_client.children(
                self._path, then=self._notify, on_error=_ignore, watch=self.read
            )

    def stop(self) -> None:
        self._is_over = True

    def _notify(self, names: list[str]) -> None:
        if not self._is_over:
            self._on_change(sorted(names))


class BrokersWatch:
    """Reports live brokers. A broker that restarted between two reads has a new epoch."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        on_change: Callable[[dict[NodeId, BrokerRegistration]], None],
        on_error: ErrorListener,
    ) -> None:
        self._zk_client = zk_client
        self._on_change = on_change
        self._on_error = on_error
        self._ids = ChildrenWatch(zk_client, znode_paths.BROKER_IDS, on_change=self._read)
        self._is_over = False

    def read(self) -> None:
        self._ids.read()

    def stop(self) -> None:
        self._is_over = True
        self._ids.stop()

    def _read(self, names: list[str]) -> None:
        found: dict[NodeId, BrokerRegistration] = {}
        reads = ParallelReads(
            self._zk_client, then=lambda: self._notify(found), on_error=self._on_error
        )
        for name in names:
            path = f"{znode_paths.BROKER_IDS}/{name}"
            reads.data(path, partial(_take_broker, found, NodeId(int(name))), missing=_pass)
        reads.finish()

    def _notify(self, found: dict[NodeId, BrokerRegistration]) -> None:
        if not self._is_over:
            self._on_change({node_id: found[node_id] for node_id in sorted(found)})


class NotificationsWatch:
    """Reports the data of new children of a znode, except those of the first read."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        path: str,
        *,
        on_change: Callable[[Sequence[bytes]], None],
        on_error: ErrorListener,
    ) -> None:
        self._zk_client = zk_client
        self._path = path
        self._on_change = on_change
        self._on_error = on_error
        self._names = ChildrenWatch(zk_client, path, on_change=self._read)
        self._known: dict[str, None] | None = None
        self._is_over = False

    def read(self) -> None:
        self._names.read()

    def stop(self) -> None:
        self._is_over = True
        self._names.stop()

    def _read(self, names: list[str]) -> None:
        before, self._known = self._known, dict.fromkeys(names)
        if before is None:
            return
        # Names end in zero-padded sequence numbers, so their order is that of creation.
        added = [name for name in names if name not in before]
        found: dict[str, bytes] = {}
        reads = ParallelReads(
            self._zk_client,
            then=lambda: self._notify([found[name] for name in added if name in found]),
            on_error=self._on_error,
        )
        for name in added:
            reads.data(
                f"{self._path}/{name}", partial(_take_notification, found, name), missing=_pass
            )
        reads.finish()

    def _notify(self, notifications: list[bytes]) -> None:
        if not self._is_over and notifications:
            self._on_change(notifications)


def _take_broker(
    found: dict[NodeId, BrokerRegistration], node_id: NodeId, data: bytes, stat: Stat
) -> None:
    found[node_id] = znode_data.read_broker(node_id, data, epoch=stat.czxid)


def _take_notification(found: dict[str, bytes], name: str, data: bytes, _: Stat) -> None:
    found[name] = data


def _pass() -> None:
    """It was deleted meanwhile; the watch will fire."""


def _ignore(problem: ZooKeeperError) -> None:
    """The session expired, and with it all watches."""

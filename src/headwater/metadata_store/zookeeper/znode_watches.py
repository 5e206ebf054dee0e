"""Nodes that are read again whenever they change.

A watch is only a hint to look again, and is set anew with each look. What a reader would get wrong:
a look under way may be overtaken by a hint, and then there are two looks; both tell what they find,
and the last one told is the last one that ZooKeeper answered.
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

Complained = Callable[[HeadwaterError], None]


class NodeWatch:
    """Tells one node's data, and None while there is no such node."""

    def __init__(
        self, zk_client: ZooKeeperClient, path: str, *, told: Callable[[bytes | None], None]
    ) -> None:
        self._zk_client = zk_client
        self._path = path
        self._told = told
        self._is_over = False

    def look(self) -> None:
        """Look now, and after every change."""
        if not self._is_over:
            self._zk_client.exists(
                self._path, then=self._exists, otherwise=_ignore, watch=self.look
            )

    def stop(self) -> None:
        self._is_over = True

    def _exists(self, stat: Stat | None) -> None:
        if stat is None:
            self._tell(None)
        else:
            # If it goes before this arrives, the watch says so.
            self._zk_client.get(
                self._path, then=lambda data, _: self._tell(data), otherwise=_ignore
            )

    def _tell(self, data: bytes | None) -> None:
        if not self._is_over:
            self._told(data)


class ChildrenWatch:
    """Tells the names of a node's children, in order."""

    def __init__(
        self, zk_client: ZooKeeperClient, path: str, *, told: Callable[[list[str]], None]
    ) -> None:
        self._zk_client = zk_client
        self._path = path
        self._told = told
        self._is_over = False

    def look(self) -> None:
        """Look now, and after every change."""
        if not self._is_over:
            self._zk_client.children(
                self._path, then=self._tell, otherwise=_ignore, watch=self.look
            )

    def stop(self) -> None:
        self._is_over = True

    def _tell(self, names: list[str]) -> None:
        if not self._is_over:
            self._told(sorted(names))


class BrokersWatch:
    """Tells who is up. A broker that went and came between two looks shows by its epoch."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        told: Callable[[dict[NodeId, BrokerRegistration]], None],
        complained: Complained,
    ) -> None:
        self._zk_client = zk_client
        self._told = told
        self._complained = complained
        self._ids = ChildrenWatch(zk_client, znode_paths.BROKER_IDS, told=self._read)
        self._is_over = False

    def look(self) -> None:
        self._ids.look()

    def stop(self) -> None:
        self._is_over = True
        self._ids.stop()

    def _read(self, names: list[str]) -> None:
        found: dict[NodeId, BrokerRegistration] = {}
        gathering = ParallelReads(
            self._zk_client, then=lambda: self._tell(found), otherwise=self._complained
        )
        for name in names:
            path = f"{znode_paths.BROKER_IDS}/{name}"
            gathering.data(path, partial(_take_broker, found, NodeId(int(name))), missing=_pass)
        gathering.seal()

    def _tell(self, found: dict[NodeId, BrokerRegistration]) -> None:
        if not self._is_over:
            self._told({node_id: found[node_id] for node_id in sorted(found)})


class NotificationsWatch:
    """Tells what stands in new children of a node. Those of the first look are not told."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        path: str,
        *,
        told: Callable[[Sequence[bytes]], None],
        complained: Complained,
    ) -> None:
        self._zk_client = zk_client
        self._path = path
        self._told = told
        self._complained = complained
        self._names = ChildrenWatch(zk_client, path, told=self._read)
        self._known: dict[str, None] | None = None
        self._is_over = False

    def look(self) -> None:
        self._names.look()

    def stop(self) -> None:
        self._is_over = True
        self._names.stop()

    def _read(self, names: list[str]) -> None:
        before, self._known = self._known, dict.fromkeys(names)
        if before is None:
            return
        # Names end in numbers of one length, so their order is that of the notes.
        fresh = [name for name in names if name not in before]
        found: dict[str, bytes] = {}
        gathering = ParallelReads(
            self._zk_client,
            then=lambda: self._tell([found[name] for name in fresh if name in found]),
            otherwise=self._complained,
        )
        for name in fresh:
            gathering.data(f"{self._path}/{name}", partial(_take_note, found, name), missing=_pass)
        gathering.seal()

    def _tell(self, notes: list[bytes]) -> None:
        if not self._is_over and notes:
            self._told(notes)


def _take_broker(
    found: dict[NodeId, BrokerRegistration], node_id: NodeId, data: bytes, stat: Stat
) -> None:
    found[node_id] = znode_data.read_broker(node_id, data, epoch=stat.czxid)


def _take_note(found: dict[str, bytes], name: str, data: bytes, _: Stat) -> None:
    found[name] = data


def _pass() -> None:
    """It went while we looked, which the watch will say."""


def _ignore(problem: ZooKeeperError) -> None:
    """The session is over, and with it everything that was followed."""

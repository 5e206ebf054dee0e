"""Ending what a dead process has left: its registration, or its controllership.

ZooKeeper would do it when the session is over. What a reader would get wrong: between the look at a
node and its removal another one may have taken its place, and the version of a new node is that of
the old one. The epoch's node tells: its version is another after each election, so a removal that
checks it hits the controller that was looked at, or nobody. A broker has no such node; one whose
new registration is hit notices and registers again.
"""

from functools import partial

from headwater.common.exceptions import CorruptFile
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import BrokerRegistration
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.zookeeper_client import Check, Delete, Stat, ZooKeeperClient


def end_registration(
    zk_client: ZooKeeperClient, broker: BrokerRegistration, *, fence: Check
) -> None:
    """Remove a registration of a broker, unless it has another one by now.

    `fence` is that of the controller who wants it.
    """
    path = znode_paths.broker(broker.node_id)

    def found(_: bytes, stat: Stat) -> None:
        if stat.czxid == broker.epoch:
            _remove(zk_client, path, stat, fence)

    zk_client.get(path, then=found, otherwise=_ignore)


def end_control(zk_client: ZooKeeperClient, node_id: NodeId) -> None:
    """Remove the controller's node, if it is this broker's still."""

    def found_epoch(_: bytes, epoch: Stat) -> None:
        fence = Check(path=znode_paths.CONTROLLER_EPOCH, version=epoch.version)
        zk_client.get(znode_paths.CONTROLLER, then=partial(found, fence), otherwise=_ignore)

    def found(fence: Check, data: bytes, stat: Stat) -> None:
        if _is_of(node_id, data):
            _remove(zk_client, znode_paths.CONTROLLER, stat, fence)

    zk_client.get(znode_paths.CONTROLLER_EPOCH, then=found_epoch, otherwise=_ignore)


def _is_of(node_id: NodeId, data: bytes) -> bool:
    try:
        return znode_data.read_controller(data) == node_id
    except CorruptFile:
        return False


def _remove(zk_client: ZooKeeperClient, path: str, stat: Stat, fence: Check) -> None:
    zk_client.multi([fence, Delete(path=path, version=stat.version)], then=_pass, otherwise=_ignore)


def _pass() -> None:
    """What comes of it is seen by those who follow the node."""


def _ignore(_: object) -> None:
    """Whatever was in the way, the session ends in its time."""

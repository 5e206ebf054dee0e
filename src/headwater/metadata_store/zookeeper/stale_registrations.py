"""End the registration or controllership of a process that has ended.

ZooKeeper would do so at the session timeout.

Note: between reading a znode and deleting it, another one may have taken its place with the same
version. For the controller, the delete also checks the version of the epoch znode, which changes
with each election, so it hits the controller that was read or none. A broker has no such znode; one
whose new registration is deleted notices and registers again.
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
    """Delete a registration of a broker unless it has registered again.

    `fence` is the fence of the calling controller.
    """
    path = znode_paths.broker(broker.node_id)

    def found(_: bytes, stat: Stat) -> None:
        if stat.czxid == broker.epoch:
            _remove(zk_client, path, stat, fence)

    zk_client.get(path, then=found, on_error=_ignore)


def end_control(zk_client: ZooKeeperClient, node_id: NodeId) -> None:
    """Delete the controller znode if it is still this broker's."""

    def found_epoch(_: bytes, epoch: Stat) -> None:
        fence = Check(path=znode_paths.CONTROLLER_EPOCH, version=epoch.version)
        zk_client.get(znode_paths.CONTROLLER, then=partial(found, fence), on_error=_ignore)

    def found(fence: Check, data: bytes, stat: Stat) -> None:
        if _is_of(node_id, data):
            _remove(zk_client, znode_paths.CONTROLLER, stat, fence)

    zk_client.get(znode_paths.CONTROLLER_EPOCH, then=found_epoch, on_error=_ignore)


def _is_of(node_id: NodeId, data: bytes) -> bool:
    try:
        return znode_data.read_controller(data) == node_id
    except CorruptFile:
        return False


def _remove(zk_client: ZooKeeperClient, path: str, stat: Stat, fence: Check) -> None:
    zk_client.multi([fence, Delete(path=path, version=stat.version)], then=_pass, on_error=_ignore)


def _pass() -> None:
    """The watches report the result."""


def _ignore(_: object) -> None:
    """Whatever failed, the session timeout will do it."""

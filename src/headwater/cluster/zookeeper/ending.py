"""Ending what a dead process has left: its registration, or its controllership.

ZooKeeper would do it when the session is over. What a reader would get wrong: between the look at a
node and its removal another one may have taken its place, and the version of a new node is that of
the old one. The epoch's node tells: its version is another after each election, so a removal that
checks it hits the controller that was looked at, or nobody. A broker has no such node; one whose
new registration is hit notices and registers again.
"""

from functools import partial

from headwater.cluster.image import Broker
from headwater.cluster.zookeeper import contents, paths
from headwater.cluster.zookeeper.keeper import Check, Delete, Keeper, Stat
from headwater.model.failures import CorruptFile
from headwater.model.ids import NodeId


def end_registration(keeper: Keeper, broker: Broker, *, fence: Check) -> None:
    """Remove a registration of a broker, unless it has another one by now.

    `fence` is that of the controller who wants it.
    """
    path = paths.broker(broker.node_id)

    def found(_: bytes, stat: Stat) -> None:
        if stat.czxid == broker.epoch:
            _remove(keeper, path, stat, fence)

    keeper.get(path, then=found, otherwise=_ignore)


def end_control(keeper: Keeper, node_id: NodeId) -> None:
    """Remove the controller's node, if it is this broker's still."""

    def found_epoch(_: bytes, epoch: Stat) -> None:
        fence = Check(path=paths.CONTROLLER_EPOCH, version=epoch.version)
        keeper.get(paths.CONTROLLER, then=partial(found, fence), otherwise=_ignore)

    def found(fence: Check, data: bytes, stat: Stat) -> None:
        if _is_of(node_id, data):
            _remove(keeper, paths.CONTROLLER, stat, fence)

    keeper.get(paths.CONTROLLER_EPOCH, then=found_epoch, otherwise=_ignore)


def _is_of(node_id: NodeId, data: bytes) -> bool:
    try:
        return contents.read_controller(data) == node_id
    except CorruptFile:
        return False


def _remove(keeper: Keeper, path: str, stat: Stat, fence: Check) -> None:
    keeper.multi([fence, Delete(path=path, version=stat.version)], then=_pass, otherwise=_ignore)


def _pass() -> None:
    """What comes of it is seen by those who follow the node."""


def _ignore(_: object) -> None:
    """Whatever was in the way, the session ends in its time."""

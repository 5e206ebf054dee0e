"""Becoming the controller: one `multi` that makes the node and raises the epoch, or neither.

What a reader would get wrong: a lost connection may hide a victory. The node's owner tells, and the
epoch that we wanted stands beside it. A node that is ours without our knowing is left over from a
term that ended, or came about late; it goes, and the election is held again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.common.exceptions import ControllerFenced, CorruptFile, StoreUnreachable
from headwater.common.ids import NodeId
from headwater.common.ports import Clock
from headwater.metadata.ports.metadata_store import Failed
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Create,
    Delete,
    FailedOperation,
    Set,
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)


@dataclass(slots=True, kw_only=True, eq=False)
class ControllerElection:
    """One candidacy. `begin` it once; it ends in one of its callbacks."""

    zk_client: ZooKeeperClient
    node_id: NodeId
    clock: Clock
    # With the epoch, and with the version of the node that it stands in.
    then: Callable[[int, int], None]
    otherwise: Failed
    epoch: int = 0
    epoch_version: int = 0

    def begin(self) -> None:
        self.zk_client.get(znode_paths.CONTROLLER_EPOCH, then=self._found, otherwise=self._missing)

    def _missing(self, problem: ZooKeeperError) -> None:
        if problem is ZooKeeperError.NO_NODE:
            self.zk_client.multi(
                [Create(path=znode_paths.CONTROLLER_EPOCH, data=znode_data.epoch(0))],
                then=self.begin,
                otherwise=self._done_by_another,
            )
        else:
            self._give_up(problem)

    def _done_by_another(self, refused: FailedOperation) -> None:
        if refused.problem in (ZooKeeperError.EXPIRED, ZooKeeperError.REFUSED):
            self._give_up(refused.problem)
        else:
            self.begin()

    def _found(self, data: bytes, stat: Stat) -> None:
        try:
            self.epoch = znode_data.read_epoch(data) + 1
        except CorruptFile as error:
            self.otherwise(error)
            return
        self.epoch_version = stat.version + 1
        own = znode_data.controller(self.node_id, now_ms=self.clock.now_ms())
        self.zk_client.multi(
            [
                Create(path=znode_paths.CONTROLLER, data=own, is_ephemeral=True),
                Set(
                    path=znode_paths.CONTROLLER_EPOCH,
                    data=znode_data.epoch(self.epoch),
                    version=stat.version,
                ),
            ],
            then=lambda: self.then(self.epoch, self.epoch_version),
            otherwise=self._refused,
        )

    def _refused(self, refused: FailedOperation) -> None:
        if refused.problem is ZooKeeperError.NODE_EXISTS:
            self.zk_client.get(znode_paths.CONTROLLER, then=self._not_new, otherwise=self._nobodys)
        elif refused.problem is ZooKeeperError.BAD_VERSION:
            self._lose()
        elif refused.problem is ZooKeeperError.UNKNOWN:
            self.zk_client.get(znode_paths.CONTROLLER, then=self._whose, otherwise=self._nobodys)
        else:
            self._give_up(refused.problem)

    def _whose(self, _: bytes, stat: Stat) -> None:
        if stat.owner == self.zk_client.session_id:
            self.then(self.epoch, self.epoch_version)
        else:
            self._lose()

    def _not_new(self, _: bytes, stat: Stat) -> None:
        if stat.owner != self.zk_client.session_id:
            self._lose()
            return
        self.zk_client.multi(
            [Delete(path=znode_paths.CONTROLLER, version=stat.version)],
            then=self.begin,
            otherwise=self._done_by_another,
        )

    def _lose(self) -> None:
        self.otherwise(ControllerFenced("another broker is the controller"))

    def _nobodys(self, problem: ZooKeeperError) -> None:
        if problem is ZooKeeperError.NO_NODE:
            self.begin()
        else:
            self._give_up(problem)

    def _give_up(self, problem: ZooKeeperError) -> None:
        self.otherwise(
            StoreUnreachable(f"{znode_paths.CONTROLLER} cannot be written: {problem.value}")
        )

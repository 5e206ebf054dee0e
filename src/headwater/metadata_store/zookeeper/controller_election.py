"""Become the controller: create the znode and raise the epoch in one `multi`.

Note: after a lost connection the election may have succeeded. The owner of the znode tells, and
then the epoch is the one we wrote. A controller znode of our session that we do not know about is
left from an earlier term or a late success; it is deleted and the election repeated.
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
    """One candidacy. Call `begin` once; it ends in one of its callbacks."""

    zk_client: ZooKeeperClient
    node_id: NodeId
    clock: Clock
    # Called with the epoch and the version of the epoch znode.
    then: Callable[[int, int], None]
    on_error: Failed
    epoch: int = 0
    epoch_version: int = 0

    def begin(self) -> None:
        self.zk_client.get(znode_paths.CONTROLLER_EPOCH, then=self._found, on_error=self._missing)

    def _missing(self, problem: ZooKeeperError) -> None:
        if problem is ZooKeeperError.NO_NODE:
            self.zk_client.multi(
                [Create(path=znode_paths.CONTROLLER_EPOCH, data=znode_data.epoch(0))],
                then=self.begin,
                on_error=self._retry_unless_expired,
            )
        else:
            self._give_up(problem)

    def _retry_unless_expired(self, failure: FailedOperation) -> None:
        if failure.problem in (ZooKeeperError.EXPIRED, ZooKeeperError.REJECTED):
            self._give_up(failure.problem)
        else:
            self.begin()

    def _found(self, data: bytes, stat: Stat) -> None:
        try:
            self.epoch = znode_data.read_epoch(data) + 1
        except CorruptFile as error:
            self.on_error(error)
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
            on_error=self._handle_failure,
        )

    def _handle_failure(self, failure: FailedOperation) -> None:
        if failure.problem is ZooKeeperError.NODE_EXISTS:
            self.zk_client.get(
                znode_paths.CONTROLLER, then=self._remove_own, on_error=self._missing_controller
            )
        elif failure.problem is ZooKeeperError.BAD_VERSION:
            self._lose()
        elif failure.problem is ZooKeeperError.UNKNOWN:
            self.zk_client.get(
                znode_paths.CONTROLLER, then=self._check_owner, on_error=self._missing_controller
            )
        else:
            self._give_up(failure.problem)

    def _check_owner(self, _: bytes, stat: Stat) -> None:
        if stat.owner == self.zk_client.session_id:
            self.then(self.epoch, self.epoch_version)
        else:
            self._lose()

    def _remove_own(self, _: bytes, stat: Stat) -> None:
        if stat.owner != self.zk_client.session_id:
            self._lose()
            return
        self.zk_client.multi(
            [Delete(path=znode_paths.CONTROLLER, version=stat.version)],
            then=self.begin,
            on_error=self._retry_unless_expired,
        )

    def _lose(self) -> None:
        self.on_error(ControllerFenced("another broker is the controller"))

    def _missing_controller(self, problem: ZooKeeperError) -> None:
        if problem is ZooKeeperError.NO_NODE:
            self.begin()
        else:
            self._give_up(problem)

    def _give_up(self, problem: ZooKeeperError) -> None:
        self.on_error(StoreUnreachable(f"cannot write {znode_paths.CONTROLLER}: {problem.value}"))

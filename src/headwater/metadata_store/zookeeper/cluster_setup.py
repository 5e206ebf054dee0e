"""What a broker does first in ZooKeeper: make what has to be there, and learn the cluster's id.

Several brokers may do it at the same time, each any number of times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.common.exceptions import CorruptFile
from headwater.metadata.ports.metadata_store import Failed
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads, unreachable
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Create,
    FailedOperation,
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)


@dataclass(slots=True, kw_only=True, eq=False)
class ClusterSetup:
    """`begin` it once; it ends in one of its callbacks, `then` with the cluster's id."""

    zk_client: ZooKeeperClient
    # The id that a new cluster gets.
    proposed_id: str
    then: Callable[[str], None]
    otherwise: Failed

    def begin(self) -> None:
        """Look for everything at once: nearly always it is all there."""
        missing: dict[str, None] = {}
        gathering = ParallelReads(
            self.zk_client,
            then=lambda: self._make([path for path in znode_paths.LASTING if path in missing]),
            otherwise=self.otherwise,
        )
        for path in znode_paths.LASTING:
            gathering.existence(path, partial(_note_missing, missing, path))
        gathering.seal()

    def _make(self, missing: Sequence[str]) -> None:
        if not missing:
            self._look_for_id()
            return
        self.zk_client.multi(
            [Create(path=missing[0])],
            then=partial(self._make, missing[1:]),
            otherwise=partial(self._refused, missing),
        )

    def _refused(self, missing: Sequence[str], refused: FailedOperation) -> None:
        if refused.problem is ZooKeeperError.NODE_EXISTS:
            self._make(missing[1:])
        elif refused.problem is ZooKeeperError.UNKNOWN:
            self._make(missing)
        else:
            self._give_up(missing[0], refused.problem)

    def _look_for_id(self) -> None:
        self.zk_client.get(znode_paths.CLUSTER_ID, then=self._found_id, otherwise=self._no_id)

    def _found_id(self, data: bytes, _: Stat) -> None:
        try:
            cluster_id = znode_data.read_cluster_id(data)
        except CorruptFile as error:
            self.otherwise(error)
            return
        self.then(cluster_id)

    def _no_id(self, problem: ZooKeeperError) -> None:
        if problem is not ZooKeeperError.NO_NODE:
            self._give_up(znode_paths.CLUSTER_ID, problem)
            return
        self.zk_client.multi(
            [Create(path=znode_paths.CLUSTER_ID, data=znode_data.cluster_id(self.proposed_id))],
            then=self._look_for_id,
            otherwise=self._id_refused,
        )

    def _id_refused(self, refused: FailedOperation) -> None:
        if refused.problem in (ZooKeeperError.NODE_EXISTS, ZooKeeperError.UNKNOWN):
            self._look_for_id()
        else:
            self._give_up(znode_paths.CLUSTER_ID, refused.problem)

    def _give_up(self, path: str, problem: ZooKeeperError) -> None:
        self.otherwise(unreachable(f"{path} cannot be made", problem))


def _note_missing(missing: dict[str, None], path: str, is_there: bool) -> None:
    if not is_there:
        missing[path] = None

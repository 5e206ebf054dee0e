"""Create the persistent znodes and read or create the cluster id.

Several brokers may do this at the same time, and repeatedly.
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
    """Call `begin` once; it ends in one of its callbacks, `then` with the cluster id."""

    zk_client: ZooKeeperClient
    # Id for a new cluster.
    proposed_id: str
    then: Callable[[str], None]
    on_error: Failed

    def begin(self) -> None:
        """Check all znodes at once: nearly always all of them exist."""
        missing: dict[str, None] = {}
        reads = ParallelReads(
            self.zk_client,
            then=lambda: self._make([path for path in znode_paths.LASTING if path in missing]),
            on_error=self.on_error,
        )
        for path in znode_paths.LASTING:
            reads.existence(path, partial(_add_missing, missing, path))
        reads.finish()

    def _make(self, missing: Sequence[str]) -> None:
        if not missing:
            self._read_id()
            return
        self.zk_client.multi(
            [Create(path=missing[0])],
            then=partial(self._make, missing[1:]),
            on_error=partial(self._handle_failure, missing),
        )

    def _handle_failure(self, missing: Sequence[str], failure: FailedOperation) -> None:
        if failure.problem is ZooKeeperError.NODE_EXISTS:
            self._make(missing[1:])
        elif failure.problem is ZooKeeperError.UNKNOWN:
            self._make(missing)
        else:
            self._give_up(missing[0], failure.problem)

    def _read_id(self) -> None:
        self.zk_client.get(znode_paths.CLUSTER_ID, then=self._found_id, on_error=self._no_id)

    def _found_id(self, data: bytes, _: Stat) -> None:
        try:
            cluster_id = znode_data.read_cluster_id(data)
        except CorruptFile as error:
            self.on_error(error)
            return
        self.then(cluster_id)

    def _no_id(self, problem: ZooKeeperError) -> None:
        if problem is not ZooKeeperError.NO_NODE:
            self._give_up(znode_paths.CLUSTER_ID, problem)
            return
        self.zk_client.multi(
            [Create(path=znode_paths.CLUSTER_ID, data=znode_data.cluster_id(self.proposed_id))],
            then=self._read_id,
            on_error=self._handle_id_failure,
        )

    def _handle_id_failure(self, failure: FailedOperation) -> None:
        if failure.problem in (ZooKeeperError.NODE_EXISTS, ZooKeeperError.UNKNOWN):
            self._read_id()
        else:
            self._give_up(znode_paths.CLUSTER_ID, failure.problem)

    def _give_up(self, path: str, problem: ZooKeeperError) -> None:
        self.on_error(unreachable(f"cannot create {path}", problem))


def _add_missing(missing: dict[str, None], path: str, exists: bool) -> None:
    if not exists:
        missing[path] = None

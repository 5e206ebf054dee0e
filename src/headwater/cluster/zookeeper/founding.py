"""What a broker does first in ZooKeeper: make what has to be there, and learn the cluster's id.

Several brokers may do it at the same time, each any number of times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headwater.cluster.store import Failed
from headwater.cluster.zookeeper import contents, paths
from headwater.cluster.zookeeper.keeper import Create, Keeper, Problem, Refused, Stat
from headwater.model.failures import CorruptFile, StoreUnreachable


@dataclass(slots=True, kw_only=True, eq=False)
class Founding:
    """`begin` it once; it ends in one of its callbacks, `then` with the cluster's id."""

    keeper: Keeper
    # The id that a new cluster gets.
    proposed_id: str
    then: Callable[[str], None]
    otherwise: Failed

    def begin(self) -> None:
        self._make(0)

    def _make(self, index: int) -> None:
        if index == len(paths.LASTING):
            self._look_for_id()
            return
        path = paths.LASTING[index]
        self.keeper.exists(
            path, then=partial(self._looked, index), otherwise=partial(self._give_up, path)
        )

    def _looked(self, index: int, stat: Stat | None) -> None:
        if stat is not None:
            self._make(index + 1)
            return
        self.keeper.multi(
            [Create(path=paths.LASTING[index])],
            then=partial(self._make, index + 1),
            otherwise=partial(self._refused, index),
        )

    def _refused(self, index: int, refused: Refused) -> None:
        if refused.problem in (Problem.NODE_EXISTS, Problem.UNKNOWN):
            self._make(index)
        else:
            self._give_up(paths.LASTING[index], refused.problem)

    def _look_for_id(self) -> None:
        self.keeper.get(paths.CLUSTER_ID, then=self._found_id, otherwise=self._no_id)

    def _found_id(self, data: bytes, _: Stat) -> None:
        try:
            cluster_id = contents.read_cluster_id(data)
        except CorruptFile as error:
            self.otherwise(error)
            return
        self.then(cluster_id)

    def _no_id(self, problem: Problem) -> None:
        if problem is not Problem.NO_NODE:
            self._give_up(paths.CLUSTER_ID, problem)
            return
        self.keeper.multi(
            [Create(path=paths.CLUSTER_ID, data=contents.cluster_id(self.proposed_id))],
            then=self._look_for_id,
            otherwise=self._id_refused,
        )

    def _id_refused(self, refused: Refused) -> None:
        if refused.problem in (Problem.NODE_EXISTS, Problem.UNKNOWN):
            self._look_for_id()
        else:
            self._give_up(paths.CLUSTER_ID, refused.problem)

    def _give_up(self, path: str, problem: Problem) -> None:
        self.otherwise(StoreUnreachable(f"{path} cannot be made: {problem.value}"))

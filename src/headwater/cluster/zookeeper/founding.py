"""What a broker does first in ZooKeeper: make what has to be there, and learn the cluster's id.

Several brokers may do it at the same time, each any number of times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.cluster.store import Failed
from headwater.cluster.zookeeper import contents, paths
from headwater.cluster.zookeeper.gathering import Gathering, unreachable
from headwater.cluster.zookeeper.keeper import Create, Keeper, Problem, Refused, Stat
from headwater.model.failures import CorruptFile


@dataclass(slots=True, kw_only=True, eq=False)
class Founding:
    """`begin` it once; it ends in one of its callbacks, `then` with the cluster's id."""

    keeper: Keeper
    # The id that a new cluster gets.
    proposed_id: str
    then: Callable[[str], None]
    otherwise: Failed

    def begin(self) -> None:
        """Look for everything at once: nearly always it is all there."""
        missing: dict[str, None] = {}
        gathering = Gathering(
            self.keeper,
            then=lambda: self._make([path for path in paths.LASTING if path in missing]),
            otherwise=self.otherwise,
        )
        for path in paths.LASTING:
            gathering.existence(path, partial(_note_missing, missing, path))
        gathering.seal()

    def _make(self, missing: Sequence[str]) -> None:
        if not missing:
            self._look_for_id()
            return
        self.keeper.multi(
            [Create(path=missing[0])],
            then=partial(self._make, missing[1:]),
            otherwise=partial(self._refused, missing),
        )

    def _refused(self, missing: Sequence[str], refused: Refused) -> None:
        if refused.problem is Problem.NODE_EXISTS:
            self._make(missing[1:])
        elif refused.problem is Problem.UNKNOWN:
            self._make(missing)
        else:
            self._give_up(missing[0], refused.problem)

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
        self.otherwise(unreachable(f"{path} cannot be made", problem))


def _note_missing(missing: dict[str, None], path: str, is_there: bool) -> None:
    if not is_there:
        missing[path] = None

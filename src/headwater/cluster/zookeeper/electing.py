"""Becoming the controller: one `multi` that makes the node and raises the epoch, or neither.

What a reader would get wrong: a lost connection may hide a victory. The node's owner tells, and the
epoch that we wanted stands beside it. A node that is ours without our knowing is left over from a
term that ended, or came about late; it goes, and the election is held again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.cluster.store import Failed
from headwater.cluster.zookeeper import contents, paths
from headwater.cluster.zookeeper.keeper import Create, Delete, Keeper, Problem, Refused, Set, Stat
from headwater.model.failures import ControllerFenced, CorruptFile, StoreUnreachable
from headwater.model.ids import NodeId
from headwater.model.ports import Clock


@dataclass(slots=True, kw_only=True, eq=False)
class Electing:
    """One candidacy. `begin` it once; it ends in one of its callbacks."""

    keeper: Keeper
    node_id: NodeId
    clock: Clock
    # With the epoch, and with the version of the node that it stands in.
    then: Callable[[int, int], None]
    otherwise: Failed
    epoch: int = 0
    epoch_version: int = 0

    def begin(self) -> None:
        self.keeper.get(paths.CONTROLLER_EPOCH, then=self._found, otherwise=self._missing)

    def _missing(self, problem: Problem) -> None:
        if problem is Problem.NO_NODE:
            self.keeper.multi(
                [Create(path=paths.CONTROLLER_EPOCH, data=contents.epoch(0))],
                then=self.begin,
                otherwise=self._done_by_another,
            )
        else:
            self._give_up(problem)

    def _done_by_another(self, refused: Refused) -> None:
        if refused.problem in (Problem.EXPIRED, Problem.REFUSED):
            self._give_up(refused.problem)
        else:
            self.begin()

    def _found(self, data: bytes, stat: Stat) -> None:
        try:
            self.epoch = contents.read_epoch(data) + 1
        except CorruptFile as error:
            self.otherwise(error)
            return
        self.epoch_version = stat.version + 1
        own = contents.controller(self.node_id, now_ms=self.clock.now_ms())
        self.keeper.multi(
            [
                Create(path=paths.CONTROLLER, data=own, is_ephemeral=True),
                Set(
                    path=paths.CONTROLLER_EPOCH,
                    data=contents.epoch(self.epoch),
                    version=stat.version,
                ),
            ],
            then=lambda: self.then(self.epoch, self.epoch_version),
            otherwise=self._refused,
        )

    def _refused(self, refused: Refused) -> None:
        if refused.problem is Problem.NODE_EXISTS:
            self.keeper.get(paths.CONTROLLER, then=self._not_new, otherwise=self._nobodys)
        elif refused.problem is Problem.BAD_VERSION:
            self._lose()
        elif refused.problem is Problem.UNKNOWN:
            self.keeper.get(paths.CONTROLLER, then=self._whose, otherwise=self._nobodys)
        else:
            self._give_up(refused.problem)

    def _whose(self, _: bytes, stat: Stat) -> None:
        if stat.owner == self.keeper.session_id:
            self.then(self.epoch, self.epoch_version)
        else:
            self._lose()

    def _not_new(self, _: bytes, stat: Stat) -> None:
        if stat.owner != self.keeper.session_id:
            self._lose()
            return
        self.keeper.multi(
            [Delete(path=paths.CONTROLLER, version=stat.version)],
            then=self.begin,
            otherwise=self._done_by_another,
        )

    def _lose(self) -> None:
        self.otherwise(ControllerFenced("another broker is the controller"))

    def _nobodys(self, problem: Problem) -> None:
        if problem is Problem.NO_NODE:
            self.begin()
        else:
            self._give_up(problem)

    def _give_up(self, problem: Problem) -> None:
        self.otherwise(StoreUnreachable(f"{paths.CONTROLLER} cannot be written: {problem.value}"))

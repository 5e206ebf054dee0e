"""The controller's changes on their way into ZooKeeper: one `multi` at a time, behind the fence.

Changes that come while one is under way share the next `multi`. One that is too large for a request
goes in pieces; then a new controller may find half of it, which is why topics begin with the node
that names them and end with it.

What a reader would get wrong: a connection that is lost leaves the outcome open. The piece is sent
again, and when that is refused, the nodes tell: a `multi` is done whole or not at all, and behind
the fence nobody else writes, so one node that looks as we wanted it vouches for all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.cluster.image import Version
from headwater.cluster.store import Failed
from headwater.cluster.zookeeper import paths
from headwater.cluster.zookeeper.keeper import (
    Check,
    Create,
    Delete,
    Keeper,
    Operation,
    Problem,
    Refused,
    Set,
    Stat,
)
from headwater.cluster.zookeeper.operations import CHUNK_BYTES, chunks
from headwater.model.failures import ControllerFenced, HeadwaterError


@dataclass(frozen=True, slots=True)
class _Change:
    operations: Sequence[Operation]
    version: Version
    then: Callable[[Version], None]
    otherwise: Failed


class Writing:
    """Writes for one term of a controller. After a failure, or `end`, it writes no more."""

    def __init__(
        self,
        keeper: Keeper,
        *,
        epoch_version: int,
        failed: Callable[[HeadwaterError], None],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """`epoch_version` is that of the epoch's node, which nobody else may change.

        `failed` is told when this term is over because a write failed, before the writes are.
        """
        self._keeper = keeper
        self.fence = Check(path=paths.CONTROLLER_EPOCH, version=epoch_version)
        self._term_failed = failed
        self._chunk_bytes = chunk_bytes
        self._waiting: list[_Change] = []
        self._group: list[_Change] = []
        self._pieces: list[list[Operation]] = []
        self._is_second_try = False
        self._failure: HeadwaterError | None = None

    def write(
        self,
        operations: Sequence[Operation],
        version: Version,
        *,
        then: Callable[[Version], None],
        otherwise: Failed,
    ) -> None:
        if self._failure is not None:
            otherwise(self._failure)
            return
        self._waiting.append(_Change(operations, version, then, otherwise))
        self._work()

    def end(self, error: HeadwaterError) -> None:
        """The term is over: nothing more is done, and whoever waits is told."""
        if self._failure is not None:
            return
        self._failure = error
        lost = self._group + self._waiting
        self._group, self._waiting, self._pieces = [], [], []
        for change in lost:
            change.otherwise(error)

    def _work(self) -> None:
        """Begin with what waits, unless something is under way."""
        if self._group or not self._waiting or self._failure is not None:
            return
        self._group, self._waiting = self._waiting, []
        together = [each for change in self._group for each in change.operations]
        self._pieces = chunks(together, self._chunk_bytes)
        self._send()

    def _send(self) -> None:
        self._keeper.multi([self.fence, *self._pieces[0]], then=self._done, otherwise=self._refused)

    def _done(self) -> None:
        if self._failure is not None:
            return
        self._is_second_try = False
        self._pieces.pop(0)
        if self._pieces:
            self._send()
            return
        group = self._group
        try:
            # The group is still under way, so that what the callbacks write shares the next one.
            for change in group:
                change.then(change.version)
        finally:
            if self._failure is None:
                self._group = []
                self._work()

    def _refused(self, refused: Refused) -> None:
        if self._failure is not None:
            return
        if refused.problem is Problem.UNKNOWN:
            self._is_second_try = True
            self._send()
        elif refused.problem is Problem.EXPIRED:
            self._fail(ControllerFenced("the session with ZooKeeper is over"))
        elif refused.place == 0:
            self._fail(ControllerFenced("another broker has become the controller"))
        elif self._is_second_try:
            self._look(refused)
        else:
            self._contradicted(refused)

    def _look(self, refused: Refused) -> None:
        """Whether the first try was done after all, by the node that the second one fell over."""
        operation = self._pieces[0][refused.place - 1]
        self._keeper.exists(
            operation.path,
            then=lambda stat: self._looked(operation, refused, stat),
            otherwise=lambda _: self._contradicted(refused),
        )

    def _looked(self, operation: Operation, refused: Refused, stat: Stat | None) -> None:
        if self._failure is not None:
            return
        if not _is_done(operation, stat):
            self._contradicted(refused)
        elif isinstance(operation, Delete) or stat is None:
            self._done()
        else:
            self._keeper.get(
                operation.path,
                then=partial(self._compare, operation, refused),
                otherwise=lambda _: self._contradicted(refused),
            )

    def _compare(self, operation: Operation, refused: Refused, data: bytes, stat: Stat) -> None:
        if self._failure is not None:
            return
        if _is_done(operation, stat) and data == getattr(operation, "data", data):
            self._done()
        else:
            self._contradicted(refused)

    def _contradicted(self, refused: Refused) -> None:
        """Somebody wrote past us: what we know is not what is there, and must be read again."""
        operation = self._pieces[0][refused.place - 1]
        self._fail(
            ControllerFenced(
                f"{operation.path} cannot be written, because {refused.problem.value}: "
                "somebody else has changed it"
            )
        )

    def _fail(self, error: ControllerFenced) -> None:
        self._term_failed(error)
        self.end(error)


def _is_done(operation: Operation, stat: Stat | None) -> bool:
    match operation:
        case Create():
            return stat is not None and stat.version == 0
        case Set():
            return stat is not None and stat.version == operation.version + 1
        case Delete():
            return stat is None
        case Check():
            return False

"""The controller's changes on their way into ZooKeeper: one `multi` at a time, behind the fence.

Changes that come while one is under way share the next `multi`. One that is too large for a request
goes in pieces; then a new controller may find half of it, which is why topics begin with the node
that names them and end with it.

Every write of a term goes through this queue, and so does every read whose result is compared with
the drafted state (`look`): the draft is ahead of the nodes by what is still queued, so a read that
overtakes the queue shows a state that the draft has left behind.

A few nodes are also written by Kafka's tools and by operators: requests to delete a topic, notes of
changes. Operations on these say so (`may_exist`, `may_be_gone`), and one that is refused because it
is done already is left out when the rest is sent again.

What a reader would get wrong: a connection that is lost leaves the outcome open. The piece is sent
again, and when that is refused, the nodes tell: a `multi` is done whole or not at all, and behind
the fence nobody else writes, so one node that looks as we wanted it vouches for all.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.common.exceptions import ControllerFenced, HeadwaterError, WriteContradicted
from headwater.metadata.cluster_image import Version
from headwater.metadata.ports.metadata_store import Failed
from headwater.metadata_store.zookeeper import znode_paths
from headwater.metadata_store.zookeeper.change_operations import CHUNK_BYTES, chunks
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Check,
    Create,
    Delete,
    FailedOperation,
    Operation,
    Set,
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)


@dataclass(frozen=True, slots=True)
class _Change:
    operations: Sequence[Operation]
    version: Version
    then: Callable[[Version], None]
    otherwise: Failed


@dataclass(frozen=True, slots=True)
class _Look:
    """Reads between the writes before it and the writes behind it."""

    begin: Callable[[Callable[[], None]], None]


class FencedChangeWriter:
    """Writes for one term of a controller. After a failure, or `end`, it writes no more."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        epoch_version: int,
        failed: Callable[[HeadwaterError], None],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """`epoch_version` is that of the epoch's node, which nobody else may change.

        `failed` is told when this term is over because a write failed, before the writes are.
        """
        self._zk_client = zk_client
        self.fence = Check(path=znode_paths.CONTROLLER_EPOCH, version=epoch_version)
        self._term_failed = failed
        self._chunk_bytes = chunk_bytes
        self._waiting: deque[_Change | _Look] = deque()
        self._is_looking = False
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

    def look(self, begin: Callable[[Callable[[], None]], None]) -> None:
        """Call `begin` when all writes so far are done; later writes wait until it is over.

        `begin` is given a function to call once it has read. It is not called after the term's end.
        """
        if self._failure is None:
            self._waiting.append(_Look(begin))
            self._work()

    def end(self, error: HeadwaterError) -> None:
        """The term is over: nothing more is done, and whoever waits is told."""
        if self._failure is not None:
            return
        self._failure = error
        lost = [*self._group, *(each for each in self._waiting if isinstance(each, _Change))]
        self._group, self._pieces = [], []
        self._waiting.clear()
        for change in lost:
            change.otherwise(error)

    def _work(self) -> None:
        """Begin with what waits, unless something is under way."""
        if self._group or self._is_looking or not self._waiting or self._failure is not None:
            return
        first = self._waiting[0]
        if isinstance(first, _Look):
            self._waiting.popleft()
            self._is_looking = True
            first.begin(self._looked_around)
            return
        while self._waiting and isinstance(change := self._waiting[0], _Change):
            self._group.append(change)
            self._waiting.popleft()
        together = [each for change in self._group for each in change.operations]
        self._pieces = chunks(together, self._chunk_bytes)
        self._send()

    def _looked_around(self) -> None:
        self._is_looking = False
        self._work()

    def _send(self) -> None:
        self._zk_client.multi(
            [self.fence, *self._pieces[0]], then=self._done, otherwise=self._refused
        )

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

    def _refused(self, refused: FailedOperation) -> None:
        if self._failure is not None:
            return
        if refused.problem is ZooKeeperError.UNKNOWN:
            self._is_second_try = True
            self._send()
        elif refused.problem is ZooKeeperError.EXPIRED:
            self._fail(ControllerFenced("the session with ZooKeeper is over"))
        elif refused.place == 0:
            self._fail(ControllerFenced("another broker has become the controller"))
        elif _is_needless(self._pieces[0][refused.place - 1], refused.problem):
            # Of a second try it does not tell whether the first one was done; the rest will.
            del self._pieces[0][refused.place - 1]
            self._send()
        elif self._is_second_try:
            self._look(refused)
        else:
            self._contradicted(refused)

    def _look(self, refused: FailedOperation) -> None:
        """Whether the first try was done after all, by the node that the second one fell over."""
        operation = self._pieces[0][refused.place - 1]
        self._zk_client.exists(
            operation.path,
            then=lambda stat: self._looked(operation, refused, stat),
            otherwise=lambda _: self._contradicted(refused),
        )

    def _looked(self, operation: Operation, refused: FailedOperation, stat: Stat | None) -> None:
        if self._failure is not None:
            return
        if not _is_done(operation, stat):
            self._contradicted(refused)
        elif isinstance(operation, Delete) or stat is None:
            self._done()
        else:
            self._zk_client.get(
                operation.path,
                then=partial(self._compare, operation, refused),
                otherwise=lambda _: self._contradicted(refused),
            )

    def _compare(
        self, operation: Operation, refused: FailedOperation, data: bytes, stat: Stat
    ) -> None:
        if self._failure is not None:
            return
        if _is_done(operation, stat) and data == getattr(operation, "data", data):
            self._done()
        else:
            self._contradicted(refused)

    def _contradicted(self, refused: FailedOperation) -> None:
        """The nodes are not as this controller knows them, and must be read again."""
        operation = self._pieces[0][refused.place - 1]
        self._fail(
            WriteContradicted(
                f"{type(operation).__name__} {operation.path} failed: {refused.problem.value}; "
                "it was changed by something other than this controller"
            )
        )

    def _fail(self, error: ControllerFenced) -> None:
        self._term_failed(error)
        self.end(error)


def _is_needless(operation: Operation, problem: ZooKeeperError) -> bool:
    """Whether the node is as the operation wants it, whoever made it so."""
    match operation:
        case Create():
            return operation.may_exist and problem is ZooKeeperError.NODE_EXISTS
        case Delete():
            return operation.may_be_gone and problem is ZooKeeperError.NO_NODE
        case _:
            return False


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

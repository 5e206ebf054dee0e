"""Write the controller's changes to ZooKeeper: one fenced `multi` at a time.

Changes that arrive while one is in flight share the next `multi`. Changes that are too large for
one request are split; a new controller may then find them half done, which is why a topic is
created with its top znode first and deleted with it last.

Every write of a term goes through this queue, and so does every read whose result is compared with
the drafted state (`read_after_writes`): the draft is ahead of the znodes by the queued writes, so a
read that overtakes the queue would show a state that the draft has already left behind.

Some znodes are also written by Kafka's tools and by operators: topic deletions, change
notifications. Operations on these are marked (`may_exist`, `may_be_missing`); one that fails
because it is already done is dropped, and the rest is sent again.

Note: a lost connection leaves the outcome unknown. The request is sent again, and if it then fails,
the znodes tell: a `multi` is done completely or not at all, and behind the fence only this
controller writes, so one znode in the desired state proves that all are.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.common.exceptions import ControllerFenced, HeadwaterError, WriteConflict
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
    on_error: Failed


@dataclass(frozen=True, slots=True)
class _Look:
    """A read that runs after all earlier writes and before all later ones."""

    begin: Callable[[Callable[[], None]], None]


class FencedChangeWriter:
    """Writes for one controller term. Stops after a failure or `end`."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        epoch_version: int,
        failed: Callable[[HeadwaterError], None],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """`epoch_version` is the version of the epoch znode; only elections change it.

        `failed` is called when a failed write ends the term, before the writes fail.
        """
        self._zk_client = zk_client
        self.fence = Check(path=znode_paths.CONTROLLER_EPOCH, version=epoch_version)
        self._term_failed = failed
        self._chunk_bytes = chunk_bytes
        self._waiting: deque[_Change | _Look] = deque()
        self._is_reading = False
        self._group: list[_Change] = []
        self._is_completing = False
        self._pieces: list[list[Operation]] = []
        self._is_retry = False
        self._failure: HeadwaterError | None = None

    def write(
        self,
        operations: Sequence[Operation],
        version: Version,
        *,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        if self._failure is not None:
            on_error(self._failure)
            return
        self._waiting.append(_Change(operations, version, then, on_error))
        self._work()

    def read_after_writes(self, begin: Callable[[Callable[[], None]], None]) -> None:
        """Call `begin` after all earlier writes; later writes wait until it is done.

        `begin` gets a function to call when its read is done. Not called after the end of the term.
        """
        if self._failure is None:
            self._waiting.append(_Look(begin))
            self._work()

    def end(self, error: HeadwaterError) -> None:
        """End the term: fail all pending writes."""
        if self._failure is not None:
            return
        self._failure = error
        pending = [*self._group, *(each for each in self._waiting if isinstance(each, _Change))]
        self._group, self._pieces = [], []
        self._waiting.clear()
        for change in pending:
            change.on_error(error)

    def _work(self) -> None:
        """Start the next group unless one is in flight."""
        is_busy = bool(self._group) or self._is_completing or self._is_reading
        if is_busy or not self._waiting or self._failure is not None:
            return
        first = self._waiting[0]
        if isinstance(first, _Look):
            self._waiting.popleft()
            self._is_reading = True
            first.begin(self._end_look)
            return
        while self._waiting and isinstance(change := self._waiting[0], _Change):
            self._group.append(change)
            self._waiting.popleft()
        together = [each for change in self._group for each in change.operations]
        self._pieces = chunks(together, self._chunk_bytes)
        self._send()

    def _end_look(self) -> None:
        self._is_reading = False
        self._work()

    def _send(self) -> None:
        self._zk_client.multi(
            [self.fence, *self._pieces[0]],
            then=self._handle_success,
            on_error=self._handle_failure,
        )

    def _handle_success(self) -> None:
        if self._failure is not None:
            return
        self._is_retry = False
        self._pieces.pop(0)
        if self._pieces:
            self._send()
            return
        # Writes of the callbacks share the next multi. A callback may end the term: then `end`
        # fails the rest of the group.
        self._is_completing = True
        try:
            while self._group:
                change = self._group.pop(0)
                change.then(change.version)
        finally:
            self._is_completing = False
            self._group = []
            self._work()

    def _handle_failure(self, failure: FailedOperation) -> None:
        if self._failure is not None:
            return
        if failure.problem is ZooKeeperError.UNKNOWN:
            self._is_retry = True
            self._send()
        elif failure.problem is ZooKeeperError.EXPIRED:
            self._fail(ControllerFenced("the ZooKeeper session expired"))
        elif failure.operation_index == 0:
            self._fail(ControllerFenced("another broker has become the controller"))
        elif _is_already_done(self._pieces[0][failure.operation_index - 1], failure.problem):
            # On a retry this does not prove that the first try succeeded; the other operations do.
            del self._pieces[0][failure.operation_index - 1]
            self._send()
        elif self._is_retry:
            self._look(failure)
        else:
            self._fail_contradicted(failure)

    def _look(self, failure: FailedOperation) -> None:
        """Check whether the first try succeeded, by the znode that failed the second."""
        operation = self._pieces[0][failure.operation_index - 1]
        self._zk_client.exists(
            operation.path,
            then=lambda stat: self._check_stat(operation, failure, stat),
            on_error=lambda _: self._fail_contradicted(failure),
        )

    def _check_stat(
        self, operation: Operation, failure: FailedOperation, stat: Stat | None
    ) -> None:
        if self._failure is not None:
            return
        if not _is_done(operation, stat):
            self._fail_contradicted(failure)
        elif isinstance(operation, Delete) or stat is None:
            self._handle_success()
        else:
            self._zk_client.get(
                operation.path,
                then=partial(self._compare, operation, failure),
                on_error=lambda _: self._fail_contradicted(failure),
            )

    def _compare(
        self, operation: Operation, failure: FailedOperation, data: bytes, stat: Stat
    ) -> None:
        if self._failure is not None:
            return
        if _is_done(operation, stat) and data == getattr(operation, "data", data):
            self._handle_success()
        else:
            self._fail_contradicted(failure)

    def _fail_contradicted(self, failure: FailedOperation) -> None:
        """The znodes differ from this controller's image and must be read again."""
        operation = self._pieces[0][failure.operation_index - 1]
        self._fail(
            WriteConflict(
                f"{type(operation).__name__} {operation.path} failed: {failure.problem.value}; "
                "it was changed by something other than this controller"
            )
        )

    def _fail(self, error: ControllerFenced) -> None:
        self._term_failed(error)
        self.end(error)


def _is_already_done(operation: Operation, problem: ZooKeeperError) -> bool:
    """Return whether the znode is already in the desired state."""
    match operation:
        case Create():
            return operation.may_exist and problem is ZooKeeperError.NODE_EXISTS
        case Delete():
            return operation.may_be_missing and problem is ZooKeeperError.NO_NODE
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

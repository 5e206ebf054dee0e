"""Issue many reads and call back once when all are done.

Note: a read's callback may issue further reads; the end is when none is in flight. The first
failure ends it too, and later results are dropped.
"""

from collections.abc import Callable

from headwater.common.exceptions import (
    CorruptFile,
    HeadwaterError,
    SessionExpired,
    StoreUnreachable,
)
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)


def unreachable(what: str, problem: ZooKeeperError) -> StoreUnreachable:
    """Return the exception for a request that ended in this error."""
    kind = SessionExpired if problem is ZooKeeperError.EXPIRED else StoreUnreachable
    return kind(f"{what}: {problem.value}")


class ParallelReads:
    """Reads that belong together. Call `finish` after issuing the first ones."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        then: Callable[[], None],
        on_error: Callable[[HeadwaterError], None],
    ) -> None:
        self._zk_client = zk_client
        self._then = then
        self._on_error = on_error
        # One until `finish` is called.
        self._in_flight = 1
        self._is_over = False

    def finish(self) -> None:
        """All reads have been issued, except those by callbacks."""
        self._arrived()

    def data(
        self,
        path: str,
        found: Callable[[bytes, Stat], None],
        missing: Callable[[], None] | None = None,
    ) -> None:
        """Read a znode's data; `missing` is called if it does not exist."""
        self._in_flight += 1
        self._zk_client.get(
            path,
            then=lambda data, stat: self._take(lambda: found(data, stat)),
            on_error=lambda problem: self._handle_failure(path, problem, missing),
        )

    def children(self, path: str, found: Callable[[list[str]], None]) -> None:
        """Read the names of a znode's children; empty if the znode does not exist."""
        self._in_flight += 1
        self._zk_client.children(
            path,
            then=lambda names: self._take(lambda: found(sorted(names))),
            on_error=lambda problem: self._handle_failure(path, problem, lambda: found([])),
        )

    def existence(self, path: str, found: Callable[[bool], None]) -> None:
        self._in_flight += 1
        self._zk_client.exists(
            path,
            then=lambda stat: self._take(lambda: found(stat is not None)),
            on_error=lambda problem: self._handle_failure(path, problem, None),
        )

    def _take(self, use: Callable[[], None]) -> None:
        if self._is_over:
            return
        try:
            use()
        except CorruptFile as error:
            self._fail(error)
            return
        self._arrived()

    def _handle_failure(
        self, path: str, problem: ZooKeeperError, missing: Callable[[], None] | None
    ) -> None:
        if problem is ZooKeeperError.NO_NODE and missing is not None:
            self._take(missing)
        elif not self._is_over:
            self._fail(unreachable(f"cannot read {path}", problem))

    def _arrived(self) -> None:
        self._in_flight -= 1
        if not self._in_flight and not self._is_over:
            self._is_over = True
            self._then()

    def _fail(self, error: HeadwaterError) -> None:
        self._is_over = True
        self._on_error(error)

"""Many reads at once, one callback when all are there.

What a reader would get wrong: reads may ask for further ones while they are answered, and the end
is when nothing is out any more. The first failure is the end too; what comes after it is dropped.
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
    """The failure of a request that ended in this problem."""
    kind = SessionExpired if problem is ZooKeeperError.EXPIRED else StoreUnreachable
    return kind(f"{what}: {problem.value}")


class ParallelReads:
    """Reads of one errand. `seal` once the first ones are asked for."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        then: Callable[[], None],
        otherwise: Callable[[HeadwaterError], None],
    ) -> None:
        self._zk_client = zk_client
        self._then = then
        self._otherwise = otherwise
        # One for whoever has yet to seal it.
        self._out = 1
        self._is_over = False

    def seal(self) -> None:
        """All that is not asked for by an answer has been."""
        self._arrived()

    def data(
        self,
        path: str,
        found: Callable[[bytes, Stat], None],
        missing: Callable[[], None] | None = None,
    ) -> None:
        """One node's data; `missing` is told of a node that is not there."""
        self._out += 1
        self._zk_client.get(
            path,
            then=lambda data, stat: self._take(lambda: found(data, stat)),
            otherwise=lambda problem: self._lack(path, problem, missing),
        )

    def children(self, path: str, found: Callable[[list[str]], None]) -> None:
        """The names of a node's children; none of a node that is not there."""
        self._out += 1
        self._zk_client.children(
            path,
            then=lambda names: self._take(lambda: found(sorted(names))),
            otherwise=lambda problem: self._lack(path, problem, lambda: found([])),
        )

    def existence(self, path: str, found: Callable[[bool], None]) -> None:
        self._out += 1
        self._zk_client.exists(
            path,
            then=lambda stat: self._take(lambda: found(stat is not None)),
            otherwise=lambda problem: self._lack(path, problem, None),
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

    def _lack(self, path: str, problem: ZooKeeperError, missing: Callable[[], None] | None) -> None:
        if problem is ZooKeeperError.NO_NODE and missing is not None:
            self._take(missing)
        elif not self._is_over:
            self._fail(unreachable(f"{path} cannot be read", problem))

    def _arrived(self) -> None:
        self._out -= 1
        if not self._out and not self._is_over:
            self._is_over = True
            self._then()

    def _fail(self, error: HeadwaterError) -> None:
        self._is_over = True
        self._otherwise(error)

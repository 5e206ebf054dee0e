"""Register this broker with an ephemeral znode.

A znode of the same id may be left from an earlier session of this broker that ZooKeeper has not
expired yet: the process was killed and restarted, or its session expired while it was disconnected.

Note: address and id do not identify the owner, since a second broker with the same settings has
them too. The id of the log directory does, which only one process can hold. A znode with our
directory id is deleted; for any other, registration waits for a session timeout and then fails with
`DuplicateBrokerRegistration`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.common.exceptions import (
    CorruptFile,
    DuplicateBrokerRegistration,
    HeadwaterError,
    StoreUnreachable,
)
from headwater.common.ports import Clock
from headwater.metadata.ports.metadata_store import Failed, Registration
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.parallel_reads import unreachable
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Create,
    Delete,
    FailedOperation,
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)

CallLater = Callable[[int, Callable[[], None]], object]
"""Calls a function once, after a number of milliseconds."""

RETRY_MS = 200


@dataclass(slots=True, kw_only=True, eq=False)
class BrokerRegistering:
    """One registration. Call `begin` once; it ends in one of its callbacks."""

    zk_client: ZooKeeperClient
    registration: Registration
    clock: Clock
    call_later: CallLater
    timeout_ms: int
    then: Callable[[int], None]
    on_error: Failed
    began_ms: int = 0
    is_over: bool = False

    def begin(self) -> None:
        self.began_ms = self.clock.steady_ms()
        self._try()

    def abandon(self) -> None:
        """Fail at once, because another registration replaces this one."""
        self._fail(StoreUnreachable("another registration has begun"))

    @property
    def _path(self) -> str:
        return znode_paths.broker(self.registration.node_id)

    def _try(self) -> None:
        if self.is_over:
            return
        data = znode_data.broker(self.registration, now_ms=self.clock.now_ms())
        self.zk_client.multi(
            [Create(path=self._path, data=data, is_ephemeral=True)],
            then=self._check_owner,
            on_error=self._refused,
        )

    def _refused(self, refused: FailedOperation) -> None:
        if refused.problem in (ZooKeeperError.NODE_EXISTS, ZooKeeperError.UNKNOWN):
            self._check_owner()
        else:
            self._give_up(refused.problem)

    def _check_owner(self) -> None:
        """Check which session owns the znode."""
        if self.is_over:
            return
        self.zk_client.get(self._path, then=self._found, on_error=self._missing)

    def _missing(self, problem: ZooKeeperError) -> None:
        if problem is ZooKeeperError.NO_NODE:
            self._try()
        else:
            self._give_up(problem)

    def _found(self, data: bytes, stat: Stat) -> None:
        if self.is_over:
            return
        if stat.owner == self.zk_client.session_id:
            self.is_over = True
            self.then(stat.czxid)
        elif self._is_ours(data):
            self.zk_client.multi(
                [Delete(path=self._path, version=stat.version)],
                then=self._try,
                on_error=lambda _: self._try(),
            )
        elif self.clock.steady_ms() - self.began_ms >= self.timeout_ms:
            self._fail(self._taken(data))
        else:
            self.call_later(RETRY_MS, self._try)

    def _is_ours(self, data: bytes) -> bool:
        own = self.registration.directory_id
        try:
            return own is not None and znode_data.directory_of(data) == own
        except CorruptFile:
            return False

    def _taken(self, data: bytes) -> DuplicateBrokerRegistration:
        node_id = self.registration.node_id
        try:
            other = znode_data.read_broker(node_id, data, epoch=0)
        except CorruptFile:
            return DuplicateBrokerRegistration(f"another process is registered as broker {node_id}")
        where = ", ".join(f"{each.host}:{each.port}" for each in other.endpoints)
        return DuplicateBrokerRegistration(
            f"another broker is registered as broker {node_id}, at {where}"
        )

    def _give_up(self, problem: ZooKeeperError) -> None:
        self._fail(unreachable(f"{self._path} cannot be written", problem))

    def _fail(self, error: HeadwaterError) -> None:
        if not self.is_over:
            self.is_over = True
            self.on_error(error)

"""ZooKeeper in virtual time, for clusters that run the shipped `ZooKeeperStore`.

`TimedZooKeeper` replaces `SharedStore` in a `MemberLab`, `TimedSession` replaces `StoreSession`.
Requests, responses and watch events of one session take random time and keep their order, as in
ZooKeeper. A lost connection drops everything in flight in either direction.

Invariant: no write of a controller's term is contradicted by the znodes. The fence keeps every
other controller from writing, so a contradiction means that this controller's own writes are out of
order. Each one is collected in `contradictions`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from headwater.common.exceptions import HeadwaterError, WriteConflict
from headwater.common.ids import NodeId
from headwater.metadata.changes import BrokerRegistered, ControllerElected, MetadataChange, apply
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.metadata.ports.metadata_store import StoreListener
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.cluster_reader import ClusterContents, read_all
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Failed as ReadFailed,
)
from headwater.metadata_store.zookeeper.zookeeper_client import (
    FailedOperation,
    Operation,
    SessionListener,
    Stat,
    Watch,
    ZooKeeperError,
)
from headwater.metadata_store.zookeeper.zookeeper_store import ZooKeeperStore
from tests.simulation.fakes.fake_zookeeper import FakeZooKeeper
from tests.simulation.fakes.stall import Stall
from tests.simulation.fakes.virtual_time import CALM, VirtualTime
from tests.simulation.labs.cluster_lab import CLUSTER_ID
from tests.simulation.worlds.replica_nodes import NodeClock

_RETRY_MS: Final = 50
# A loaded server is slow to grant a session, which may then expire before it is used.
_SLOW_SESSION_MS: Final = 700
_SHORT_SESSION_MS: Final = 40
_MOST_SHORT_SESSIONS: Final = 2


class _Tree(FakeZooKeeper):
    """Watch events are delayed by the session that gets them, not here."""

    __slots__ = ()

    def later(self, work: Callable[[], None]) -> None:
        work()


class TimedZooKeeper:
    """The server and its sessions."""

    def __init__(self, time: VirtualTime, *, session_timeout_ms: int) -> None:
        self.time = time
        self.session_timeout_ms = session_timeout_ms
        self.tree = _Tree()
        self.contradictions: list[str] = []
        self._ended: dict[int, None] = {}
        self._image: tuple[int, ClusterImage] | None = None
        for path in znode_paths.LASTING:
            self.tree.put(path)

    def session(self, node_id: int, stall: Stall | None = None) -> TimedSession:
        """A broker's session, for one life of its process."""
        return TimedSession(self, NodeId(node_id), stall or Stall())

    @property
    def image(self) -> ClusterImage:
        """The cluster as in the znodes now."""
        if self._image is None or self._image[0] != self.tree.zxid:
            self._image = self.tree.zxid, _image_of(self.tree)
        return self._image[1]

    def unregister(self, node_id: NodeId) -> None:
        """A registration ends while its session lives on."""
        if znode_paths.broker(node_id) in self.tree.nodes:
            self.tree.remove(znode_paths.broker(node_id))

    def end_control(self, node_id: NodeId) -> None:
        if self.image.controller_id == node_id:
            self.tree.remove(znode_paths.CONTROLLER)

    def new_session(self) -> int:
        self.tree.sessions += 1
        return self.tree.sessions

    def end_session(self, session_id: int) -> None:
        if session_id and session_id not in self._ended:
            self._ended[session_id] = None
            self.tree.expire(session_id)

    def has_ended(self, session_id: int) -> bool:
        return session_id in self._ended


class TimedSession:
    """`ClusterStore` of one process, and faults of its connection."""

    def __init__(self, server: TimedZooKeeper, node_id: NodeId, stall: Stall) -> None:
        self.node_id = node_id
        self._server = server
        self._stall = stall
        self._is_dead = False
        self._zk_client = TimedKeeper(server, stall)
        self._store = _WatchedStore(
            self._zk_client,
            clock=NodeClock(server.time, 0),
            call_later=self._later,
            session_timeout_ms=server.session_timeout_ms,
            contradicted=server.contradictions.append,
        )
        self.register = self._store.register
        self.become_controller = self._store.become_controller
        self.resign = self._store.resign
        self.read = self._store.read
        self.read_configs = self._store.read_configs
        self.report_failed_directory = self._store.report_failed_directory
        self.write = self._store.write
        self.end_registration = self._store.end_registration
        self.end_control = self._store.end_control
        # Connection.
        self.cut = self._zk_client.cut
        self.heal = self._zk_client.heal
        self.expire = self._zk_client.expire

    def listen(self, listener: StoreListener) -> None:
        self._store.listen(listener)
        self._found()

    def close(self) -> None:
        self._store.close()
        self._is_dead = True

    def crash(self) -> None:
        """The process ended; its session ends after the session timeout."""
        self._is_dead = True
        self._zk_client.crash()

    def _found(self, _: HeadwaterError | None = None) -> None:
        again = partial(self._later, _RETRY_MS, self._found)
        self._store.create_cluster(CLUSTER_ID, then=_ignore, on_error=lambda _: again())

    def _later(self, delay_ms: int, work: Callable[[], None]) -> None:
        def act() -> None:
            if not self._is_dead:
                work()

        self._server.time.after(delay_ms, partial(self._stall.pass_on, act))


class _WatchedStore(ZooKeeperStore):
    """Collects writes that the znodes contradict."""

    def __init__(self, *arguments: object, contradicted: Callable[[str], None], **named: object):
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self._contradicted = contradicted

    def _term_failed(self, error: HeadwaterError) -> None:
        if isinstance(error, WriteConflict):
            self._contradicted(str(error))
        super()._term_failed(error)


@dataclass(slots=True, eq=False)
class _Call:
    serve: Callable[[], Callable[[], None]]
    failed: ReadFailed
    is_read: bool


class TimedKeeper:
    """`headwater.metadata_store.zookeeper.zookeeper_client.ZooKeeperClient`."""

    def __init__(self, server: TimedZooKeeper, stall: Stall) -> None:
        self.session_id = 0
        self.is_connected = False
        self._server = server
        self._time = server.time
        self._stall = stall
        self._listener: SessionListener | None = None
        self._waiting: deque[_Call] = deque()
        self._asked: dict[_Call, None] = {}
        self._watches: list[Callable[[], None]] = []
        # Another one after every loss: nothing of a former connection arrives.
        self._connection = 0
        self._is_cut = False
        self._is_dead = False
        self._short_sessions = 0
        self._there_ms = 0
        self._back_ms = 0
        self._connect_soon()

    # Faults.

    def cut(self) -> None:
        """Client and server cannot reach each other until `heal`."""
        self._is_cut = True
        self._drop()

    def heal(self) -> None:
        if self._is_cut:
            self._is_cut = False
            self._connect_soon()

    def expire(self) -> None:
        """The server ends the session; the client learns it when it connects again."""
        self._server.end_session(self.session_id)
        self._drop()
        self._connect_soon()

    def crash(self) -> None:
        self._is_dead = True
        session_id = self.session_id
        self._time.after(
            self._server.session_timeout_ms, lambda: self._server.end_session(session_id)
        )

    # `ZooKeeperClient`.

    def listen(self, listener: SessionListener) -> None:
        self._listener = listener

    def get(
        self,
        path: str,
        *,
        then: Callable[[bytes, Stat], None],
        on_error: ReadFailed,
        watch: Watch | None = None,
    ) -> None:
        def serve() -> Callable[[], None]:
            node = self._server.tree.nodes.get(path)
            if node is None:
                return partial(on_error, ZooKeeperError.NO_NODE)
            self._watch("data", path, watch)
            return partial(then, node.data, node.stat)

        self._put(_Call(serve, on_error, is_read=True))

    def exists(
        self,
        path: str,
        *,
        then: Callable[[Stat | None], None],
        on_error: ReadFailed,
        watch: Watch | None = None,
    ) -> None:
        def serve() -> Callable[[], None]:
            node = self._server.tree.nodes.get(path)
            self._watch("data", path, watch)
            return partial(then, None if node is None else node.stat)

        self._put(_Call(serve, on_error, is_read=True))

    def children(
        self,
        path: str,
        *,
        then: Callable[[list[str]], None],
        on_error: ReadFailed,
        watch: Watch | None = None,
    ) -> None:
        def serve() -> Callable[[], None]:
            if path not in self._server.tree.nodes:
                return partial(on_error, ZooKeeperError.NO_NODE)
            self._watch("children", path, watch)
            return partial(then, self._server.tree.children(path)[::-1])

        self._put(_Call(serve, on_error, is_read=True))

    def multi(
        self,
        operations: Sequence[Operation],
        *,
        then: Callable[[], None],
        on_error: Callable[[FailedOperation], None],
    ) -> None:
        def serve() -> Callable[[], None]:
            self._server.tree.now_ms = self._time.now_ms
            refused = self._server.tree.apply(operations, owner=self.session_id)
            return then if refused is None else partial(on_error, refused)

        def failed(problem: ZooKeeperError) -> None:
            on_error(FailedOperation(-1, problem))

        self._put(_Call(serve, failed, is_read=False))

    def close(self) -> None:
        self._is_dead = True
        self._server.end_session(self.session_id)
        self._give_up_all()

    # Requests and responses.

    def _put(self, call: _Call) -> None:
        if self._is_dead:
            self._time.after(0, partial(call.failed, ZooKeeperError.EXPIRED))
            return
        self._waiting.append(call)
        self._pump()

    def _pump(self) -> None:
        while self.is_connected and self._waiting:
            call = self._waiting.popleft()
            self._asked[call] = None
            self._there_ms = max(self._there_ms, self._time.now_ms + self._delay_ms())
            arrive = partial(self._arrive, call, self._connection)
            self._time.after(self._there_ms - self._time.now_ms, arrive)

    def _arrive(self, call: _Call, connection: int) -> None:
        # Requests of a process that has just died may still arrive.
        if connection == self._connection and not self._server.has_ended(self.session_id):
            self._back(partial(self._answered, call, call.serve()))

    def _answered(self, call: _Call, answer: Callable[[], None]) -> None:
        if call in self._asked:
            del self._asked[call]
            answer()
            self._pump()

    def _back(self, action: Callable[[], None]) -> None:
        """Deliver something from the server, behind everything in flight."""
        connection = self._connection
        self._back_ms = max(self._back_ms, self._time.now_ms + self._delay_ms())

        def deliver() -> None:
            if connection == self._connection and not self._is_dead:
                action()

        def arrive() -> None:
            if connection == self._connection:
                self._stall.pass_on(deliver)

        self._time.after(self._back_ms - self._time.now_ms, arrive)

    def _watch(self, kind: str, path: str, watch: Watch | None) -> None:
        if watch is None:
            return
        has_fired = False

        def once() -> None:
            nonlocal has_fired
            if not has_fired:
                has_fired = True
                self._watches.remove(once)
                watch()

        self._watches.append(once)
        self._server.tree.watch(kind, path, partial(self._back, once))

    # Connection and session.

    def _drop(self) -> None:
        self._connection += 1
        number, session_id = self._connection, self.session_id

        def over() -> None:
            if self._is_cut and self._connection == number:
                self._server.end_session(session_id)

        self._time.after(self._server.session_timeout_ms, over)
        self._time.after(1, partial(self._stall.pass_on, partial(self._dropped, number)))

    def _dropped(self, connection: int) -> None:
        """The client notices that its connection is lost."""
        if self._is_dead or connection != self._connection:
            return
        self.is_connected = False
        asked, self._asked = self._asked, {}
        self._waiting.extendleft(reversed([call for call in asked if call.is_read]))
        for call in asked:
            if not call.is_read:
                call.failed(ZooKeeperError.UNKNOWN)
        for watch in list(self._watches):
            watch()

    def _connect_soon(self) -> None:
        connection = self._connection
        delay_ms = 1 + self._delay_ms()
        if self._is_stormy() and self._time.happens(0.3):
            delay_ms += self._time.rand.randrange(_SLOW_SESSION_MS)
        self._time.after(delay_ms, lambda: self._stall.pass_on(partial(self._connect, connection)))

    def _connect(self, connection: int) -> None:
        if self._is_dead or self._is_cut or connection != self._connection:
            return
        if self.session_id and self._server.has_ended(self.session_id):
            self._expired()
            self._connect_soon()
            return
        self.is_connected = True
        if not self.session_id:
            self.session_id = self._server.new_session()
            self._shorten()
            if self._listener is not None:
                self._listener.session_began()
        self._pump()

    def _shorten(self) -> None:
        """Let some sessions expire soon after they began: during a registration, for example."""
        if self._short_sessions >= _MOST_SHORT_SESSIONS or not self._is_stormy():
            return
        if self._time.happens(0.3):
            self._short_sessions += 1
            session_id = self.session_id

            def expire() -> None:
                if self.session_id == session_id and not self._is_dead and not self._is_cut:
                    self.expire()

            self._time.after(1 + self._time.rand.randrange(_SHORT_SESSION_MS), expire)

    def _is_stormy(self) -> bool:
        return self._time.weather is not CALM

    def _expired(self) -> None:
        self.session_id = 0
        self._watches.clear()
        self._give_up_all()
        if self._listener is not None:
            self._listener.session_ended()

    def _give_up_all(self) -> None:
        lost = [*self._asked, *self._waiting]
        self._asked.clear()
        self._waiting.clear()
        for call in lost:
            call.failed(ZooKeeperError.EXPIRED)

    def _delay_ms(self) -> int:
        return self._time.rand.randint(1, 5)


class _InstantKeeper:
    """Reads a tree at once."""

    def __init__(self, tree: FakeZooKeeper) -> None:
        self._tree = tree

    def get(
        self,
        path: str,
        *,
        then: Callable[[bytes, Stat], None],
        on_error: ReadFailed,
        watch: Watch | None = None,  # noqa: ARG002
    ) -> None:
        node = self._tree.nodes.get(path)
        if node is None:
            on_error(ZooKeeperError.NO_NODE)
        else:
            then(node.data, node.stat)

    def children(
        self,
        path: str,
        *,
        then: Callable[[list[str]], None],
        on_error: ReadFailed,
        watch: Watch | None = None,  # noqa: ARG002
    ) -> None:
        if path in self._tree.nodes:
            then(self._tree.children(path))
        else:
            on_error(ZooKeeperError.NO_NODE)


def _image_of(tree: FakeZooKeeper) -> ClusterImage:
    found: list[ClusterContents] = []
    failures: list[HeadwaterError] = []
    read_all(_InstantKeeper(tree), then=found.append, on_error=failures.append)  # type: ignore[arg-type]
    assert not failures, failures
    changes: list[MetadataChange] = found[0].changes()
    for name in sorted(tree.children(znode_paths.BROKER_IDS), key=int):
        node_id, node = NodeId(int(name)), tree.nodes[f"{znode_paths.BROKER_IDS}/{name}"]
        broker = znode_data.read_broker(node_id, node.data, epoch=node.stat.czxid)
        changes.append(BrokerRegistered(broker))
    controller = tree.nodes.get(znode_paths.CONTROLLER)
    if controller is not None:
        changes.append(ControllerElected(znode_data.read_controller(controller.data)))
    epoch = tree.nodes.get(znode_paths.CONTROLLER_EPOCH)
    version = Version(0 if epoch is None else znode_data.read_epoch(epoch.data), 0)
    return apply(ClusterImage(cluster_id=CLUSTER_ID), changes, version)


def _ignore(_: object) -> None:
    """Brokers of a simulated cluster know its id."""

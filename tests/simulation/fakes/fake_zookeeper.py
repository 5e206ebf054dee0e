"""ZooKeeper in memory, with sessions that expire and connections that fail.

`FakeZooKeeper` is the server, `zk_client` creates a client.

Note: nothing is answered before `run`, which does one thing after the other until nothing is left;
before that a test can set what happens to a client's connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from headwater.metadata_store.zookeeper.zookeeper_client import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Failed,
    FailedOperation,
    Operation,
    SessionListener,
    Set,
    Stat,
    Watch,
    ZooKeeperError,
)


@dataclass(slots=True)
class _Node:
    data: bytes
    stat: Stat
    next_child: int = 0


@dataclass(slots=True)
class FakeZooKeeper:
    """The tree, and pending work."""

    now_ms: int = 0
    nodes: dict[str, _Node] = field(default_factory=lambda: {"": _Node(b"", Stat(0, 0, 0, 0))})
    zxid: int = 0
    sessions: int = 0
    _work: deque[Callable[[], None]] = field(default_factory=deque)
    _watches: dict[tuple[str, str], list[Callable[[], None]]] = field(default_factory=dict)

    def zk_client(self) -> FakeZooKeeperClient:
        """Create a client; its session starts with the next `run`."""
        return FakeZooKeeperClient(self)

    def run(self, steps: int | None = None) -> None:
        """Do this many pieces of work, or all."""
        while self._work and steps != 0:
            self._work.popleft()()
            steps = None if steps is None else steps - 1

    def later(self, work: Callable[[], None]) -> None:
        self._work.append(work)

    def data(self, path: str) -> bytes:
        return self.nodes[path].data

    def version(self, path: str) -> int:
        return self.nodes[path].stat.version

    def children(self, path: str) -> list[str]:
        prefix = f"{path}/"
        return [
            name.removeprefix(prefix)
            for name in self.nodes
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix)
        ]

    def put(self, path: str, data: bytes = b"") -> None:
        """Another program writes a znode, and its parents if they are missing."""
        parent = path.rpartition("/")[0]
        if parent not in self.nodes:
            self.put(parent)
        if path in self.nodes:
            self.apply([Set(path=path, data=data)], owner=0)
        else:
            self.apply([Create(path=path, data=data)], owner=0)

    def remove(self, path: str) -> None:
        self.apply([Delete(path=path)], owner=0)

    def watch(self, kind: str, path: str, watch: Callable[[], None]) -> None:
        self._watches.setdefault((kind, path), []).append(watch)

    def expire(self, owner: int) -> None:
        """A session ends on the server: its znodes are deleted."""
        for path in [name for name, node in self.nodes.items() if node.stat.owner == owner]:
            self.apply([Delete(path=path)], owner=0)

    def apply(self, operations: Sequence[Operation], *, owner: int) -> FailedOperation | None:
        kept = {
            path: _Node(each.data, each.stat, each.next_child) for path, each in self.nodes.items()
        }
        self.zxid += 1
        changed: list[tuple[str, str]] = []
        for place, each in enumerate(operations):
            problem = self._apply_one(each, owner, changed)
            if problem is not None:
                self.nodes = kept
                return FailedOperation(place, problem)
        for kind, path in changed:
            for watch in self._watches.pop((kind, path), []):
                self.later(watch)
        return None

    def _apply_one(
        self, each: Operation, owner: int, changed: list[tuple[str, str]]
    ) -> ZooKeeperError | None:
        path = each.path
        assert not {".", ".."} & {*path.split("/")}, "kazoo would not even send it"
        parent = path.rpartition("/")[0]
        if isinstance(each, Create):
            if parent not in self.nodes:
                return ZooKeeperError.NO_NODE
            if each.is_sequential:
                path = f"{path}{self.nodes[parent].next_child:010d}"
            if path in self.nodes:
                return ZooKeeperError.NODE_EXISTS
            self.nodes[parent].next_child += 1
            session = owner if each.is_ephemeral else 0
            self.nodes[path] = _Node(each.data, Stat(0, self.zxid, session, self.now_ms))
            changed += [("data", path), ("children", parent)]
            return None
        node = self.nodes.get(path)
        if node is None:
            return ZooKeeperError.NO_NODE
        if each.version not in (ANY_VERSION, node.stat.version):
            return ZooKeeperError.BAD_VERSION
        if isinstance(each, Set):
            node.data = each.data
            node.stat = node.stat._replace(version=node.stat.version + 1)
            changed.append(("data", path))
        elif isinstance(each, Delete):
            if self.children(path):
                return ZooKeeperError.NOT_EMPTY
            del self.nodes[path]
            changed += [("data", path), ("children", parent)]
        else:
            assert isinstance(each, Check)
        return None


@dataclass(slots=True, eq=False)
class _Call:
    serve: Callable[[], Callable[[], None]]
    failed: Failed
    is_read: bool


class FakeZooKeeperClient:
    """`headwater.metadata_store.zookeeper.zookeeper_client.ZooKeeperClient`."""

    def __init__(self, server: FakeZooKeeper) -> None:
        self.session_id = 0
        self.is_connected = False
        # What happens to the next `multi`: "served", "lost before" or "lost after" it was done.
        self.fate = "served"
        self.reads = 0
        self.largest_multi = 0
        self._server = server
        self._listener: SessionListener | None = None
        self._calls: deque[_Call] = deque()
        self._watches: list[Callable[[], None]] = []
        self._generation = 0
        server.later(self.connect)

    def listen(self, listener: SessionListener) -> None:
        self._listener = listener

    # Faults.

    @property
    def has_requests(self) -> bool:
        """Whether requests wait to be served."""
        return bool(self._calls)

    def connect(self) -> None:
        """Connect, and start a session if there is none."""
        is_new = not self.session_id
        self.is_connected = True
        if is_new:
            self._server.sessions += 1
            self.session_id = self._server.sessions
            if self._listener is not None:
                self._listener.session_began()
        for _ in self._calls:
            self._server.later(self._serve)

    def disconnect(self) -> None:
        """Lose the connection; the session lives on."""
        self.is_connected = False
        watches, self._watches = self._watches, []
        for watch in watches:
            self._server.later(watch)

    def expire(self) -> None:
        """The session expires, and the client learns it when it is connected again."""
        self._server.expire(self.session_id)
        self.session_id = 0
        self.is_connected = False
        self._generation += 1
        self._watches = []
        calls, self._calls = self._calls, deque()
        for call in calls:
            call.failed(ZooKeeperError.EXPIRED)
        if self._listener is not None:
            self._listener.session_ended()

    # `ZooKeeperClient`.

    def get(
        self,
        path: str,
        *,
        then: Callable[[bytes, Stat], None],
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        def serve() -> Callable[[], None]:
            node = self._server.nodes.get(path)
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
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        def serve() -> Callable[[], None]:
            node = self._server.nodes.get(path)
            self._watch("data", path, watch)
            return partial(then, None if node is None else node.stat)

        self._put(_Call(serve, on_error, is_read=True))

    def children(
        self,
        path: str,
        *,
        then: Callable[[list[str]], None],
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        def serve() -> Callable[[], None]:
            if path not in self._server.nodes:
                return partial(on_error, ZooKeeperError.NO_NODE)
            self._watch("children", path, watch)
            return partial(then, self._server.children(path)[::-1])

        self._put(_Call(serve, on_error, is_read=True))

    def multi(
        self,
        operations: Sequence[Operation],
        *,
        then: Callable[[], None],
        on_error: Callable[[FailedOperation], None],
    ) -> None:
        def serve() -> Callable[[], None]:
            self.largest_multi = max(self.largest_multi, len(operations))
            fate, self.fate = self.fate, "served"
            if fate == "lost before":
                self.disconnect()
                return partial(on_error, FailedOperation(-1, ZooKeeperError.UNKNOWN))
            refused = self._server.apply(operations, owner=self.session_id)
            if fate == "lost after":
                self.disconnect()
                return partial(on_error, FailedOperation(-1, ZooKeeperError.UNKNOWN))
            return then if refused is None else partial(on_error, refused)

        def failed(problem: ZooKeeperError) -> None:
            on_error(FailedOperation(-1, problem))

        self._put(_Call(serve, failed, is_read=False))

    def close(self) -> None:
        self._server.expire(self.session_id)
        self._generation += 1
        self.is_connected = False

    def _put(self, call: _Call) -> None:
        self._calls.append(call)
        self._server.later(self._serve)

    def _serve(self) -> None:
        if self.is_connected and self._calls:
            call = self._calls.popleft()
            self.reads += call.is_read
            call.serve()()

    def _watch(self, kind: str, path: str, watch: Watch | None) -> None:
        if watch is None:
            return
        generation = self._generation
        fired = False

        def once() -> None:
            nonlocal fired
            if not fired and generation == self._generation:
                fired = True
                watch()

        self._watches.append(once)
        self._server.watch(kind, path, once)

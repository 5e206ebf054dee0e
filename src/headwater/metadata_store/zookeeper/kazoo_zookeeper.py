"""`ZooKeeperClient` on kazoo: request queue, reads, watches and session state.

Runs on the event loop's thread, where kazoo's responses and watches arrive in order (see
`kazoo_client`).

Note: a read whose connection was lost is sent again, a write is not. The caller has to find out
whether it was done.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from headwater.metadata_store.zookeeper.kazoo_client import NO_NODE, MultiRead, Post, new_client
from headwater.metadata_store.zookeeper.zookeeper_client import (
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

_log = logging.getLogger(__name__)

# kazoo wakes its thread through a pipe that holds few bytes, one for each unsent request, and would
# block the event loop when it is full. Reads that share a request count as many.
WINDOW: Final = 128
SHARED: Final = 200

CLOSE_MS: Final = 5_000
"""Timeout for ending a session."""

_PROBLEMS: Final = {
    "NoNodeError": ZooKeeperError.NO_NODE,
    "NodeExistsError": ZooKeeperError.NODE_EXISTS,
    "BadVersionError": ZooKeeperError.BAD_VERSION,
    "NotEmptyError": ZooKeeperError.NOT_EMPTY,
    "ConnectionLoss": ZooKeeperError.UNKNOWN,
    "SessionExpiredError": ZooKeeperError.EXPIRED,
    "ConnectionClosedError": ZooKeeperError.EXPIRED,
}
_CONSEQUENCES: Final = ("RolledBackError", "RuntimeInconsistency")


@dataclass(slots=True, eq=False)
class _Request:
    """A request that waits or is in flight."""

    issue: Callable[[], Any]
    done: Callable[[Any], None]
    failed: Failed
    is_read: bool
    # Set for a read that may share a request with others.
    path: str | None = None
    is_over: bool = False


class KazooZooKeeper:
    """Call `start` once, `close` on the event loop, and then `end` in a thread."""

    def __init__(
        self, connect: str, *, session_timeout_ms: int, post: Post, client: Any = None
    ) -> None:
        """`connect` is host:port[,host:port...][/chroot], as in zookeeper.connect."""
        hosts, slash, root = connect.partition("/")
        self._root = f"/{root.strip('/')}" if slash and root.strip("/") else ""
        self._post = post
        self._client = client or new_client(hosts, session_timeout_ms / 1_000, post)
        self._client.add_listener(self._on_state)
        self._listener: SessionListener | None = None
        self._waiting: deque[_Request] = deque()
        self._retries: list[_Request] = []
        self._in_flight: dict[_Request, None] = {}
        self._is_connected = False
        self._has_root = not self._root
        self._is_closed = False
        self._is_ended = False
        # Incremented with each session, so that watches of a former one are ignored.
        self._generation = 0
        self.session_id = 0

    def start(self) -> None:
        """Start connecting; retries without limit."""
        self._client.start_async()

    def end(self, timeout_ms: int = CLOSE_MS) -> None:
        """End the session at the server, so that it need not time out. Blocks.

        After `timeout_ms` the session is left to its timeout. kazoo alone would wait for the longer
        of ten seconds and a session timeout, and after that for its thread without a limit.
        """
        if self._is_ended:
            return
        self._is_ended = True
        # A daemon thread, so that the process can exit while kazoo still waits.
        closing = threading.Thread(target=self._end_client, name="zookeeper-close", daemon=True)
        closing.start()
        closing.join(timeout_ms / 1_000)
        if closing.is_alive():
            _log.warning(
                "ZooKeeper did not confirm the end of the session: timeout_ms=%d", timeout_ms
            )

    def _end_client(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:  # noqa: BLE001, kazoo's own errors; the session then times out
            _log.warning("Closing the ZooKeeper session failed: error=%s", error)

    # The port.

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def listen(self, listener: SessionListener) -> None:
        self._listener = listener

    def get(
        self,
        path: str,
        *,
        then: Callable[[bytes, Stat], None],
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        if watch is None:
            self._submit(
                _Request(
                    issue=partial(self._read_many, (path,)),
                    done=lambda found: then(*found),
                    failed=on_error,
                    is_read=True,
                    path=path,
                )
            )
            return
        self._read(
            lambda on_change: self._client.get_async(self._full(path), watch=on_change),
            lambda found: then(found[0], _stat(found[1])),
            on_error,
            watch,
        )

    def exists(
        self,
        path: str,
        *,
        then: Callable[[Stat | None], None],
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        self._read(
            lambda on_change: self._client.exists_async(self._full(path), watch=on_change),
            lambda found: then(None if found is None else _stat(found)),
            on_error,
            watch,
        )

    def children(
        self,
        path: str,
        *,
        then: Callable[[list[str]], None],
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        self._read(
            lambda on_change: self._client.get_children_async(self._full(path), watch=on_change),
            then,
            on_error,
            watch,
        )

    def multi(
        self,
        operations: Sequence[Operation],
        *,
        then: Callable[[], None],
        on_error: Callable[[FailedOperation], None],
    ) -> None:
        def done(results: list[Any]) -> None:
            refused = _failed_operation(results)
            if refused is None:
                then()
            else:
                on_error(refused)

        self._submit(
            _Request(
                issue=lambda: self._transaction(operations),
                done=done,
                failed=lambda problem: on_error(FailedOperation(-1, problem)),
                is_read=False,
            )
        )

    def close(self) -> None:
        self._is_closed = True
        self._is_connected = False
        self._fail_all()

    # Requests and responses.

    def _read(
        self,
        issue: Callable[[Any], Any],
        done: Callable[[Any], None],
        failed: Failed,
        watch: Watch | None,
    ) -> None:
        # Watches of a former session are ignored.
        generation = self._generation
        on_change = None if watch is None else partial(self._changed, generation, watch)
        self._submit(_Request(partial(issue, on_change), done, failed, is_read=True))

    def _changed(self, generation: int, watch: Watch, _event: object) -> None:
        if generation == self._generation and not self._is_closed:
            watch()

    def _submit(self, request: _Request) -> None:
        if self._is_closed:
            self._post(partial(request.failed, ZooKeeperError.EXPIRED))
            return
        self._waiting.append(request)
        self._send_waiting()

    def _send_waiting(self) -> None:
        while (
            self._is_connected
            and self._has_root
            and self._waiting
            and len(self._in_flight) < WINDOW
        ):
            request = self._waiting.popleft()
            if request.path is None:
                self._in_flight[request] = None
                request.issue().rawlink(partial(self._handle_response, request))
            else:
                self._share(request)

    def _share(self, first: _Request) -> None:
        """Combine consecutive waiting reads into one request."""
        together = {first: first.path or ""}
        while self._waiting and len(together) < SHARED:
            path = self._waiting[0].path
            if path is None:
                break
            together[self._waiting.popleft()] = path
        self._in_flight.update(dict.fromkeys(together))
        result = self._read_many(tuple(together.values()))
        result.rawlink(partial(self._handle_many, tuple(together)))

    def _read_many(self, paths: Sequence[str]) -> Any:
        result = self._client.handler.async_result()
        self._client._call(MultiRead([self._full(path) for path in paths]), result)
        return result

    def _handle_many(self, requests: Sequence[_Request], result: Any) -> None:
        for place, request in enumerate(requests):
            if request.is_over:
                continue
            if not result.successful():
                self._handle_failure(request, _problem(result.exception))
                continue
            del self._in_flight[request]
            request.is_over = True
            found = result.value[place]
            if isinstance(found, int):
                is_missing = found == NO_NODE
                request.failed(ZooKeeperError.NO_NODE if is_missing else ZooKeeperError.REJECTED)
            else:
                request.done(found)
        self._send_waiting()

    def _handle_response(self, request: _Request, result: Any) -> None:
        if request.is_over:
            return
        if result.successful():
            del self._in_flight[request]
            request.is_over = True
            request.done(result.value)
        else:
            self._handle_failure(request, _problem(result.exception))
        self._send_waiting()

    def _handle_failure(self, request: _Request, problem: ZooKeeperError) -> None:
        del self._in_flight[request]
        if problem is ZooKeeperError.UNKNOWN and request.is_read:
            self._retries.append(request)
        else:
            request.is_over = True
            request.failed(problem)

    def _fail_all(self) -> None:
        pending = [*self._in_flight, *self._retries, *self._waiting]
        self._in_flight.clear()
        self._retries.clear()
        self._waiting.clear()
        for request in pending:
            request.is_over = True
        for request in pending:
            request.failed(ZooKeeperError.EXPIRED)

    # Connection state.

    def _on_state(self, state: str) -> None:
        """Called on kazoo's thread."""
        client_id = self._client.client_id
        session_id = 0 if client_id is None else client_id[0]
        self._post(partial(self._state_changed, str(state), session_id))

    def _state_changed(self, state: str, session_id: int) -> None:
        if self._is_closed:
            return
        if state == "CONNECTED":
            self._connected(session_id)
        elif state == "SUSPENDED":
            _log.warning("Lost connection to ZooKeeper, reconnecting")
            self._is_connected = False
        else:
            self._lost()

    def _connected(self, session_id: int) -> None:
        self._is_connected = True
        self._waiting.extendleft(reversed(self._retries))
        self._retries.clear()
        is_new = session_id != self.session_id
        self.session_id = session_id
        _log.info("Connected to ZooKeeper: session=%#x", session_id)
        if not self._has_root:
            self._make_root()
        if is_new and self._listener is not None:
            self._listener.session_began()
        self._send_waiting()

    def _lost(self) -> None:
        _log.warning("ZooKeeper session expired")
        self._is_connected = False
        self._generation += 1
        had_session, self.session_id = bool(self.session_id), 0
        self._fail_all()
        if had_session and self._listener is not None:
            self._listener.session_ended()

    def _make_root(self) -> None:
        """Create all parts of the chroot; each may exist."""
        parts = self._root.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            made = self._client.create_async("/" + "/".join(parts[:count]))
        made.rawlink(self._rooted)

    def _rooted(self, result: Any) -> None:
        # If the connection was lost meanwhile, it is tried again with the next one.
        if result.successful() or _problem(result.exception) is ZooKeeperError.NODE_EXISTS:
            self._has_root = True
            self._send_waiting()

    def _full(self, path: str) -> str:
        return self._root + path

    def _transaction(self, operations: Sequence[Operation]) -> Any:
        transaction = self._client.transaction()
        for each in operations:
            path = self._full(each.path)
            match each:
                case Create():
                    transaction.create(
                        path,
                        each.data,
                        ephemeral=each.is_ephemeral,
                        sequence=each.is_sequential,
                    )
                case Set():
                    transaction.set_data(path, each.data, each.version)
                case Delete():
                    transaction.delete(path, each.version)
                case Check():
                    transaction.check(path, each.version)
        return transaction.commit_async()


def _stat(stat: Any) -> Stat:
    return Stat(
        version=stat.version,
        czxid=stat.czxid,
        owner=stat.ephemeralOwner,
        created_ms=stat.ctime,
    )


def _problem(error: BaseException) -> ZooKeeperError:
    return _PROBLEMS.get(type(error).__name__, ZooKeeperError.REJECTED)


def _failed_operation(results: Sequence[Any]) -> FailedOperation | None:
    """Return why a transaction failed; its other operations only report that one did."""
    errors = [
        (index, each) for index, each in enumerate(results) if isinstance(each, BaseException)
    ]
    for index, error in errors:
        if type(error).__name__ not in _CONSEQUENCES:
            return FailedOperation(index, _problem(error))
    return FailedOperation(-1, ZooKeeperError.REJECTED) if errors else None

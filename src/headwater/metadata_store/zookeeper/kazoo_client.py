"""Create a kazoo client whose callbacks all run on the event loop.

Note: kazoo calls back from two threads, one for responses and one for watches, and so loses their
order. Its handler is replaced by one that passes both to the event loop from the only thread that
reads the socket, so that the order is ZooKeeper's. kazoo is an optional dependency, imported when a
client is created.
"""

import importlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from headwater.common.exceptions import InvalidSetting

Post = Callable[[Callable[[], None]], object]
"""Runs a function on the event loop; may be called from any thread."""

_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}


def new_client(hosts: str, timeout_s: float, post: Post) -> Any:
    """Return a client, not started. Raises `InvalidSetting` without kazoo."""
    try:
        kazoo = importlib.import_module("kazoo.client")
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            "zookeeper.connect needs kazoo, which is not installed: "
            "pip install 'headwater[cluster]'"
        ) from error
    # `kazoo_zookeeper` logs the state of the connection.
    quiet = logging.getLogger("headwater.kazoo")
    quiet.setLevel(logging.ERROR)
    return kazoo.KazooClient(
        hosts=hosts,
        timeout=timeout_s,
        handler=LoopHandler(post),
        connection_retry=_RECONNECT,
        logger=quiet,
    )


class _Posting:
    """A kazoo queue that posts to the event loop."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def put(self, call: Callable[[], None]) -> None:
        try:
            self._post(call)
        except RuntimeError:
            # The event loop is closed.
            return


class LoopHandler:
    """kazoo's threading handler, but all callbacks run on the event loop."""

    def __init__(self, post: Post) -> None:
        threads = importlib.import_module("kazoo.handlers.threading")
        utils = importlib.import_module("kazoo.handlers.utils")
        self._threads = threads.SequentialThreadingHandler()
        self._new_result = utils.AsyncResult
        self.completion_queue = _Posting(post)
        self.running = True

    def start(self) -> None:
        """No worker threads to start."""

    def stop(self) -> None:
        """No worker threads to stop."""

    def async_result(self) -> Any:
        return self._new_result(self, threading.Condition, self._threads.timeout_exception)

    def dispatch_callback(self, callback: Any) -> None:
        self.completion_queue.put(partial(callback.func, *callback.args))

    def __getattr__(self, name: str) -> Any:
        """Sockets, locks and events are those of the threading handler."""
        return getattr(self._threads, name)

"""A client of kazoo's whose callbacks all run on the loop.

What a reader would get wrong: kazoo would call back from two threads of its own, one for answers
and one for watches, and so lose their order. Its handler is replaced by one that hands both to the
loop, from the only thread that reads the socket; so the loop hears everything as ZooKeeper said it.
kazoo is an extra, and is loaded when a client is made.
"""

import importlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from headwater.common.exceptions import InvalidSetting

Post = Callable[[Callable[[], None]], object]
"""Runs something on the loop; may be called from any thread."""

_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}


def new_client(hosts: str, timeout_s: float, post: Post) -> Any:
    """One that is not started yet. InvalidSetting where kazoo is not installed."""
    try:
        kazoo = importlib.import_module("kazoo.client")
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            "zookeeper.connect needs kazoo, which is not installed: "
            "pip install 'headwater[cluster]'"
        ) from error
    # What there is to say of the connection, the keeper says.
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
    """A queue of kazoo's whose other end is the loop."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def put(self, call: Callable[[], None]) -> None:
        try:
            self._post(call)
        except RuntimeError:
            # The loop is closed: nobody is left to hear it.
            return


class LoopHandler:
    """kazoo's handler for threads, but all callbacks run on the loop. See the module."""

    def __init__(self, post: Post) -> None:
        threads = importlib.import_module("kazoo.handlers.threading")
        utils = importlib.import_module("kazoo.handlers.utils")
        self._threads = threads.SequentialThreadingHandler()
        self._new_result = utils.AsyncResult
        self.completion_queue = _Posting(post)
        self.running = True

    def start(self) -> None:
        """There are no workers to start."""

    def stop(self) -> None:
        """Nor to stop: whatever comes last is for the loop too."""

    def async_result(self) -> Any:
        return self._new_result(self, threading.Condition, self._threads.timeout_exception)

    def dispatch_callback(self, callback: Any) -> None:
        self.completion_queue.put(partial(callback.func, *callback.args))

    def __getattr__(self, name: str) -> Any:
        """Sockets, locks and events are as they are for threads."""
        return getattr(self._threads, name)

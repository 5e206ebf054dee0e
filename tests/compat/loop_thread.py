"""An event loop in a thread of its own, for clients that need a running one."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.compat.clients import TIMEOUT_S

Answer = TypeVar("Answer")


class LoopThread:
    """Runs until it is closed, and executes coroutines of other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a coroutine without waiting for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

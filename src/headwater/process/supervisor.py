"""Restart child processes that exit, with back-off; stop all on a signal.

Their standard errors become one, with a label on each line. The children die with this process,
whatever ends it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

from headwater.process.ready_process import ReadyProcess, first_of, stop_in_turn

_log = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedCommand:
    """A child's name, as it is shown, and its command line."""

    name: str
    command: Sequence[str]


class RestartBackoff:
    """How long to wait before a child is restarted.

    The first restart is almost immediate. The wait doubles while the child keeps exiting, and
    starts over once it has run for a while.
    """

    FIRST_MS: Final = 500
    LONGEST_MS: Final = 30_000
    STABLE_MS: Final = 60_000

    def __init__(self) -> None:
        self._next_ms = self.FIRST_MS

    def after_exit(self, ran_ms: int) -> int:
        """Return the wait after a run of some time."""
        if ran_ms >= self.STABLE_MS:
            self._next_ms = self.FIRST_MS
        wait_ms = self._next_ms
        self._next_ms = min(2 * wait_ms, self.LONGEST_MS)
        return wait_ms


class ProcessSupervisor:
    """Starts, restarts and stops children; `label` adds a name to each line."""

    def __init__(
        self,
        children: Sequence[SupervisedCommand],
        *,
        label: Callable[[str, bytes], bytes],
        output: BinaryIO,
    ) -> None:
        self._children = children
        self._label = label
        self._output = output
        self._processes: list[ReadyProcess] = []
        self._pumps: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._killed = asyncio.Event()

    async def run(self, *, ready: Callable[[], None]) -> bool:
        """Run until SIGTERM or Ctrl-C; a second one kills all children.

        `ready` is called once all children are ready. Returns False if one exits before.
        """
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._on_signal)
        try:
            for child in self._children:
                self._processes.append(await self._start(child))
            all_ready = asyncio.ensure_future(self._all_ready())
            await first_of(asyncio.shield(all_ready), self._ended.wait())
            if self._ended.is_set():
                return True
            if not await all_ready:
                return False
            ready()
            places = range(len(self._children))
            await asyncio.gather(*(self._keep_running(place) for place in places))
        finally:
            # A child that is being restarted has been added by now.
            await stop_in_turn(self._processes, self._killed)
            await asyncio.gather(*self._pumps)
        return True

    def _on_signal(self) -> None:
        (self._killed if self._ended.is_set() else self._ended).set()

    async def _start(self, child: SupervisedCommand) -> ReadyProcess:
        process = await ReadyProcess.start(child.command, stderr=subprocess.PIPE)
        _log.info("Started: process=%s pid=%d", child.name, process.pid)
        self._pumps = [each for each in self._pumps if not each.done()]
        self._pumps.append(asyncio.ensure_future(self._pump(child.name, process)))
        return process

    async def _all_ready(self) -> bool:
        """Wait until all children are ready; the others may wait for one that is not."""
        for each in asyncio.as_completed([process.is_ready() for process in self._processes]):
            if not await each:
                return False
        return True

    async def _keep_running(self, place: int) -> None:
        child, backoff = self._children[place], RestartBackoff()
        started_s = time.monotonic()
        while True:
            process = self._processes[place]
            await first_of(process.wait(), self._ended.wait())
            if self._ended.is_set():
                return
            wait_ms = backoff.after_exit(int((time.monotonic() - started_s) * 1_000))
            _log.warning(
                "Exited, will be restarted: process=%s pid=%d exit_code=%s wait_ms=%d",
                child.name,
                process.pid,
                process.exit_code,
                wait_ms,
            )
            await first_of(asyncio.sleep(wait_ms / 1_000), self._ended.wait())
            if self._ended.is_set():
                return
            started_s = time.monotonic()
            self._processes[place] = restarted = await self._start(child)
            ready = asyncio.ensure_future(restarted.is_ready())
            await first_of(asyncio.shield(ready), self._ended.wait())
            if ready.done() and ready.result():
                _log.info("Ready again: process=%s pid=%d", child.name, restarted.pid)

    async def _pump(self, name: str, process: ReadyProcess) -> None:
        """Copy a child's standard error, line by line."""
        rest = b""
        while chunk := await process.stderr.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            self._write(name, lines)
        if rest:
            self._write(name, [rest])

    def _write(self, name: str, lines: Sequence[bytes]) -> None:
        # The children keep running without a log if standard error is closed.
        with suppress(OSError):
            self._output.write(b"".join(self._label(name, line) + b"\n" for line in lines))
            self._output.flush()

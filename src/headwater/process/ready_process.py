"""Child processes that print a line when ready, and die with their parent.

Several of them are stopped one by one, so that leaders can move from each to those still running.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Sequence
from typing import IO, Final, Self

from headwater.process import die_with_parent

_READY: Final = b"headwater ready"


def headwater_command(*arguments: str) -> list[str]:
    """Return the command line of a `headwater` command that dies with this process."""
    guard = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
    return [*guard, sys.executable, "-P", "-m", "headwater", *arguments]


class ReadyProcess:
    """A process, from its start until its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, command: Sequence[str], *, stderr: int | IO[bytes]) -> Self:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            # Ctrl-C goes to this process, which then stops its children one by one.
            process_group=0,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        return self._process.returncode

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @property
    def stderr(self) -> asyncio.StreamReader:
        assert self._process.stderr is not None
        return self._process.stderr

    async def is_ready(self) -> bool:
        """Wait for the ready line; return False if the process exits first."""
        assert self._process.stdout is not None
        if not (await self._process.stdout.readline()).startswith(_READY):
            await self._process.wait()
            return False
        return True

    async def wait(self) -> None:
        await self._process.wait()

    async def stop(self) -> None:
        if self.is_running:
            self._process.terminate()
        await self._process.wait()

    def kill(self) -> None:
        if self.is_running:
            self._process.kill()


async def stop_in_turn(processes: Sequence[ReadyProcess], killed: asyncio.Event) -> None:
    """Stop processes, the last one first; kill all when `killed` is set."""

    async def stop_all() -> None:
        # The first ones are voters of a KRaft quorum, without which no leadership can move.
        for process in reversed(processes):
            await process.stop()

    await first_of(stop_all(), killed.wait())
    for process in processes:
        process.kill()
        await process.stop()


async def first_of(one: Awaitable[object], other: Awaitable[object]) -> None:
    """Wait until one of the two is done, and cancel only the wait for the other."""

    async def wait_for(each: Awaitable[object]) -> None:
        await each

    tasks = [asyncio.create_task(wait_for(each)) for each in (one, other)]
    _, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()

"""Run several servers in one process, which end together.

They start in order. If one fails, all end.

Note: a server that fails is not restarted here. The process exits and says which one it was, so
that what supervises the process (systemd, Kubernetes) sees it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.common.exceptions import HeadwaterError


class ServiceFailed(HeadwaterError):
    """A service did not start or ended by itself; the message names it."""


@dataclass(frozen=True, slots=True)
class GroupedService:
    """A server of a group.

    `serve` calls the function with its URL and returns when the event is set. It is called when all
    services before it are ready.
    """

    name: str
    serve: Callable[[Callable[[str], None], asyncio.Event], Awaitable[None]]


async def run_services(
    services: Sequence[GroupedService],
    ended: asyncio.Event,
    *,
    ready: Callable[[Mapping[str, str]], None],
) -> None:
    """Serve until `ended` is set; call `ready` with the URLs when all are ready.

    Raises `ServiceFailed` after the other services have ended.
    """
    running: dict[asyncio.Task[None], GroupedService] = {}
    urls: dict[str, str] = {}
    waiting = asyncio.create_task(ended.wait())
    try:
        for service in services:
            is_ready = asyncio.Event()

            def take(
                url: str, name: str = service.name, is_ready: asyncio.Event = is_ready
            ) -> None:
                urls[name] = url
                is_ready.set()

            task = asyncio.ensure_future(service.serve(take, ended))
            running[task] = service
            starting = asyncio.create_task(is_ready.wait())
            try:
                await asyncio.wait(
                    (starting, waiting, *running), return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                starting.cancel()
            if any(each.done() for each in (waiting, *running)):
                break
        else:
            ready(urls)
            await asyncio.wait((waiting, *running), return_when=asyncio.FIRST_COMPLETED)
        failed = [each for each in running if each.done()] if not ended.is_set() else []
    finally:
        ended.set()
        waiting.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for task in failed:
        error = task.exception()
        if error is not None and not isinstance(error, HeadwaterError):
            raise error
        reason = "it ended by itself" if error is None else str(error)
        raise ServiceFailed(f"{running[task].name}: {reason}") from error

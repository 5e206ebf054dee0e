"""`headwater zookeeper`: run a real ZooKeeper for development until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwater.process.zookeeper_server import Server

CANNOT_START = 2
SERVER_ENDED = 1


def zookeeper(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Data directory of the servers.")
    ] = Path("./zookeeper"),
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Client port; 0 chooses a free port.")
    ] = 2181,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    ensemble: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=9, help="Number of servers, on ports from --port up."),
    ] = 1,
    tick_time: Annotated[
        int,
        typer.Option(
            metavar="MS", min=10, help="tickTime in ms; the minimum session timeout is twice this."
        ),
    ] = 500,
) -> None:
    """Run ZooKeeper (jars from pyspark) until SIGTERM or Ctrl-C. Needs Java 17."""
    from headwater.common.exceptions import HeadwaterError

    try:
        code = asyncio.run(_run(directory, host, port, ensemble, tick_time))
    except HeadwaterError as error:
        typer.echo(f"headwater: {error}", err=True)
        code = CANNOT_START
    raise typer.Exit(code)


async def _run(directory: Path, host: str, port: int, count: int, tick_ms: int) -> int:
    from headwater.process.zookeeper_server import Server, planned

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)
    plans = planned(directory.absolute(), host, port, count)
    servers: list[Server] = []
    try:
        # Start them one by one, so that a failure stops the servers started before it.
        for place in range(count):
            servers += [Server(plans, place, tick_ms=tick_ms)]
        await _ready_or_ended(servers, ended)
        if not ended.is_set():
            addresses = ",".join(plan.address for plan in plans)
            pids = ",".join(str(server.pid) for server in servers)
            typer.echo(f"headwater zookeeper ready on {addresses} (pid {pids}, data {directory})")
        while not ended.is_set():
            if not all(server.is_running for server in servers):
                typer.echo("headwater: a ZooKeeper server has exited", err=True)
                return SERVER_ENDED
            await _wait_briefly(ended)
        return 0
    finally:
        for server in servers:
            server.stop()


async def _ready_or_ended(servers: list[Server], ended: asyncio.Event) -> None:
    async def ready() -> None:
        await asyncio.gather(*(server.ready() for server in servers))

    async def end() -> None:
        await ended.wait()

    tasks = [asyncio.create_task(ready()), asyncio.create_task(end())]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for other in others:
        other.cancel()
    for task in done:
        await task


async def _wait_briefly(ended: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(0.5):
            await ended.wait()
    except TimeoutError:
        return

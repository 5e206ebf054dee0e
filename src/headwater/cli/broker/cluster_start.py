"""`headwater cluster start`: run brokers on KRaft or ZooKeeper until Ctrl-C.

Note: a broker that exits is reported but not restarted, so that broker failures can be tried out.
ZooKeeper keeps running after the last broker has exited, because brokers may have been restarted
by hand.
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.process.ready_process import ReadyProcess
    from headwater.process.zookeeper_server import Server

CANNOT_START = 2
ALL_ENDED = 1

_ERROR = "headwater: "
# Options of `headwater start` in the reason, and those of this command in their place.
_ADVICE: Final = {
    "another address with --listen": "other ports with --base-port",
    "another directory with --data": "another directory with --dir",
}
_WATCH_INTERVAL_S = 0.3


def start(
    brokers: Annotated[int, typer.Option(metavar="N", min=1, help="Number of brokers.")] = 3,
    directory: Annotated[
        Path,
        typer.Option("--dir", metavar="DIR", help="Directory for all data, logs and cluster.json."),
    ] = Path("./cluster"),
    base_port: Annotated[
        int,
        typer.Option(
            metavar="PORT", help="Port of the first broker; the others use the following ports."
        ),
    ] = 9092,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    zookeeper: Annotated[
        bool,
        typer.Option(
            "--zookeeper", help="Start ZooKeeper, which needs Java, instead of a KRaft quorum."
        ),
    ] = False,
    zookeeper_connect: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...[/CHROOT]",
            help="Use this ZooKeeper instead of a KRaft quorum. Default: none.",
        ),
    ] = None,
    first_id: Annotated[int, typer.Option(metavar="N", help="Node id of the first broker.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option("-o", metavar="KEY=VALUE", help="Setting for all brokers; repeatable."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail to start on unknown settings.")
    ] = False,
) -> None:
    """Start brokers with a KRaft quorum or ZooKeeper, and serve until Ctrl-C.

    The first three brokers are also the controllers of the quorum; of one or two brokers only the
    first is.
    """
    from headwater.common.exceptions import HeadwaterError

    plan = _Plan(
        directory=directory.absolute(),
        host=host,
        ports=[base_port + number for number in range(brokers)],
        first_id=first_id,
        zookeeper=zookeeper_connect,
        is_kraft=not zookeeper and zookeeper_connect is None,
        options=option or [],
        is_strict=strict,
    )
    try:
        code = asyncio.run(_run(plan))
    except HeadwaterError as error:
        typer.echo(f"headwater: {error}", err=True)
        code = CANNOT_START
    raise typer.Exit(code)


class _Plan:
    """The arguments of the command."""

    def __init__(
        self,
        *,
        directory: Path,
        host: str,
        ports: list[int],
        first_id: int,
        zookeeper: str | None,
        is_kraft: bool,
        options: list[str],
        is_strict: bool,
    ) -> None:
        self.directory = directory
        self.host = host
        self.ports = ports
        self.first_id = first_id
        self.zookeeper = zookeeper
        self.is_kraft = is_kraft
        self.options = options
        self.is_strict = is_strict

    def log_of(self, node_id: int) -> Path:
        return self.directory / f"broker-{node_id}.log"

    def prepare(self) -> None:
        """Write the settings of all KRaft nodes and format their directories."""
        from headwater.broker.broker_server.local_cluster import local_cluster

        cluster = local_cluster(
            self.directory, host=self.host, first_id=self.first_id, nodes=len(self.ports)
        )
        for place, port in enumerate(self.ports):
            node_id = self.first_id + place
            settings = cluster.settings(node_id, f"PLAINTEXT://{self.host}:{port}")
            lines = "".join(f"{name}={text}\n" for name, text in settings.items())
            self.properties_of(node_id).write_text(lines, encoding="utf-8")
            cluster.format(node_id, self.directory / f"broker-{node_id}")

    def check_directory(self) -> None:
        """Reject a directory with a cluster on the other metadata store."""
        from headwater.common.exceptions import WrongLogDirectory
        from headwater.common.settings.quorum_settings import QUORUM_FILE

        has_quorum = (self.directory / QUORUM_FILE).exists()
        if self.is_kraft and not has_quorum and self._has_zookeeper():
            raise WrongLogDirectory(
                f"{self.directory} has a cluster on ZooKeeper; add --zookeeper or give another "
                "--dir"
            )
        if not self.is_kraft and has_quorum:
            raise WrongLogDirectory(
                f"{self.directory} has a cluster on KRaft; leave out --zookeeper or give another "
                "--dir"
            )

    def _has_zookeeper(self) -> bool:
        try:
            described = json.loads((self.directory / "cluster.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            described = {}
        return "zookeeper" in described or (self.directory / "zookeeper").exists()

    def properties_of(self, node_id: int) -> Path:
        return self.directory / f"broker-{node_id}.properties"

    def broker_command(self, place: int, connect: str) -> list[str]:
        from headwater.network.host_name import own_host_name
        from headwater.process.ready_process import headwater_command

        node_id = self.first_id + place
        command = headwater_command("start")
        if self.is_kraft:
            command += ["--config", str(self.properties_of(node_id))]
        else:
            command += ["--zookeeper", connect, "--node-id", str(node_id)]
            command += ["--listen", f"{self.host}:{self.ports[place]}"]
        command += ["--data", str(self.directory / f"broker-{node_id}")]
        # Brokers on one machine fail together, so replicas should go to other machines.
        if not any(each.startswith("broker.rack=") for each in self.options):
            command += ["-o", f"broker.rack={own_host_name()}"]
        for each in self.options:
            command += ["-o", each]
        if self.is_strict:
            command += ["--strict"]
        return command


class _Broker:
    def __init__(self, node_id: int, port: int, process: ReadyProcess) -> None:
        self.node_id = node_id
        self.port = port
        self.process = process
        self._is_exit_reported = False

    def report_exit(self) -> None:
        """Print that the process has exited, once."""
        if not self.process.is_running and not self._is_exit_reported:
            self._is_exit_reported = True
            code = self.process.exit_code
            typer.echo(f"headwater: broker {self.node_id} ended with exit code {code}", err=True)


async def _run(plan: _Plan) -> int:
    ended, killed = asyncio.Event(), asyncio.Event()

    def end() -> None:
        (killed if ended.is_set() else ended).set()

    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, end)
    from headwater.process.private_files import make_private
    from headwater.process.ready_process import first_of

    plan.check_directory()
    make_private(plan.directory)
    server, connect = await _zookeeper(plan)
    brokers: list[_Broker] = []
    try:
        for place in range(len(plan.ports)):
            brokers += [await _start_broker(plan, place, connect)]
        ready = asyncio.ensure_future(_all_ready(brokers))
        await first_of(asyncio.shield(ready), ended.wait())
        if not ended.is_set():
            failed = await ready
            if failed is not None:
                typer.echo(_failure(plan, failed), err=True)
                return CANNOT_START
            _announce(plan, server, connect, brokers)
        return await _watch(server, brokers, ended)
    finally:
        await _stop(server, brokers, killed)


async def _all_ready(brokers: Sequence[_Broker]) -> _Broker | None:
    """Wait until all brokers serve; return the first one that has exited instead.

    The others may wait for it, if they need its vote.
    """

    async def failed(broker: _Broker) -> _Broker | None:
        return None if await broker.process.is_ready() else broker

    for each in asyncio.as_completed([failed(broker) for broker in brokers]):
        found = await each
        if found is not None:
            return found
    return None


def _failure(plan: _Plan, broker: _Broker) -> str:
    """Say why a broker did not start: the last error in its log."""
    log = plan.log_of(broker.node_id)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    reasons = [each.removeprefix(_ERROR) for each in lines if each.startswith(_ERROR)]
    reason = f": {reasons[-1]}" if reasons else ""
    for advice, ours in _ADVICE.items():
        reason = reason.replace(advice, ours)
    return f"headwater: broker {broker.node_id} did not start{reason}; see {log}"


async def _zookeeper(plan: _Plan) -> tuple[Server | None, str]:
    from headwater.process.zookeeper_server import Server, planned

    if plan.is_kraft:
        plan.prepare()
        return None, ""
    if plan.zookeeper is not None:
        return None, plan.zookeeper
    [place] = planned(plan.directory / "zookeeper", plan.host, 0, 1)
    server = Server([place], 0)
    await server.ready()
    return server, place.address


async def _start_broker(plan: _Plan, place: int, connect: str) -> _Broker:
    node_id = plan.first_id + place
    from headwater.process.private_files import open_private
    from headwater.process.ready_process import ReadyProcess

    with open_private(plan.log_of(node_id), append=True) as log:
        process = await ReadyProcess.start(plan.broker_command(place, connect), stderr=log)
    return _Broker(node_id, plan.ports[place], process)


def _announce(plan: _Plan, server: Server | None, connect: str, brokers: Sequence[_Broker]) -> None:
    described: dict[str, object] = {
        "brokers": [
            {"id": broker.node_id, "pid": broker.process.pid, "port": broker.port}
            for broker in brokers
        ],
    }
    if not plan.is_kraft:
        described["zookeeper"] = {
            "pid": None if server is None else server.pid,
            "port": int(connect.partition("/")[0].rpartition(":")[2]),
        }
    written = plan.directory / "cluster.json.new"
    written.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    written.rename(plan.directory / "cluster.json")
    servers = ",".join(f"{plan.host}:{broker.port}" for broker in brokers)
    typer.echo(
        f"headwater ready on {servers} "
        f"({len(brokers)} brokers, {_store(plan, connect)}, data {plan.directory})"
    )


def _store(plan: _Plan, connect: str) -> str:
    if not plan.is_kraft:
        return f"ZooKeeper {connect}"
    from headwater.broker.broker_server.local_cluster import QUORUM_TIMEOUTS

    given = dict(each.partition("=")[::2] for each in plan.options)
    timeouts = " ".join(f"{name}={given.get(name, text)}" for name, text in QUORUM_TIMEOUTS.items())
    return f"KRaft {timeouts}"


async def _watch(server: Server | None, brokers: Sequence[_Broker], ended: asyncio.Event) -> int:
    """Report processes that exit, until Ctrl-C or until nothing is left running."""
    from headwater.process.ready_process import first_of

    is_reported = False
    while not ended.is_set():
        for broker in brokers:
            broker.report_exit()
        if not is_reported and not any(broker.process.is_running for broker in brokers):
            is_reported = True
            rest = "" if server is None else "; ZooKeeper keeps running until Ctrl-C"
            typer.echo(f"headwater: all brokers have exited{rest}", err=True)
        if is_reported and server is None:
            return ALL_ENDED
        if server is not None and not server.is_running:
            typer.echo("headwater: ZooKeeper has exited; the brokers keep running", err=True)
            server = None
        await first_of(asyncio.sleep(_WATCH_INTERVAL_S), ended.wait())
    return 0


async def _stop(server: Server | None, brokers: Sequence[_Broker], killed: asyncio.Event) -> None:
    """Shut down brokers one by one, so that leadership moves; kill on a second signal."""
    from headwater.process.ready_process import stop_in_turn

    await stop_in_turn([broker.process for broker in brokers], killed)
    if server is not None:
        await asyncio.to_thread(server.stop)

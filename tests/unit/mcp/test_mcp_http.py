"""`headwater mcp --http`: who may call it, and what pages of other sites cannot do."""

import asyncio
import base64
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from mcp.client.client import Client
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.console.connections import Connections
from headwater.mcp.bounded_answers import AnswerLimits
from headwater.mcp.cluster_tools import ClusterTools
from headwater.mcp.mcp_server import mcp_server
from headwater.mcp.sql_tool import SqlAccess
from headwater.network.system_clock import SystemClock
from headwater.testing import EmbeddedBroker
from tests.secured_broker import properties, secured_broker
from tests.unit.mcp.mcp_client import TIMEOUT_S, McpServer, ToolFailed, Tools, over_http, over_stdio

TOKEN = "a-token-of-enough-characters"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(broker: EmbeddedBroker) -> Iterator[McpServer]:
    with McpServer(broker.bootstrap_servers) as opened:
        yield opened


def post(server: McpServer, headers: Mapping[str, str] | None = None, method: str = "POST") -> int:
    """The status of a request as a program or a browser sends it."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=TIMEOUT_S)
    given = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **(headers or {}),
    }
    try:
        body = json.dumps(INITIALIZE) if method == "POST" else None
        connection.request(method, "/mcp", body, given)
        return connection.getresponse().status
    finally:
        connection.close()


async def names(tools: Tools) -> list[str]:
    return await tools.names()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_clients_of_both_protocol_generations_find_the_tools(server: McpServer, mode: str) -> None:
    assert "list_topics" in over_http(server.url, use=names, mode=mode)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example:8090"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_pages_of_other_sites_are_rejected(
    server: McpServer, headers: Mapping[str, str], method: str
) -> None:
    assert post(server, headers, method) == 403


def test_programs_and_pages_of_the_same_origin_are_served(server: McpServer) -> None:
    assert post(server) == 200
    own = server.url.removesuffix("/mcp")
    assert post(server, {"Origin": own, "Sec-Fetch-Site": "same-origin"}) == 200


def test_a_bearer_token_is_needed_if_there_is_one(broker: EmbeddedBroker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    with McpServer(broker.bootstrap_servers, "--token-file", str(file)) as server:
        for wrong in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": "Bearer "}):
            assert post(server, wrong) == 401
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert post(server, right) == 200
        # The token does not open the door to other sites.
        assert post(server, {**right, "Origin": "https://evil.example"}) == 403
        assert "list_topics" in over_http(server.url, use=names, headers=right)
        assert TOKEN not in server.log_text


def test_users_of_the_password_file_may_call_it_and_viewers_only_read(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    (tmp_path / "users").write_text("ann: secret\nvera: secret,viewer\n")
    config = tmp_path / "mcp.properties"
    config.write_text(
        f"authentication.method=BASIC\nheadwater.authentication.users.file={tmp_path}/users\n"
    )
    arguments = ["--config", str(config), "--allow-writes"]

    def tools_of(server: McpServer, user: str) -> list[str]:
        encoded = base64.b64encode(f"{user}:secret".encode()).decode()
        return over_http(server.url, use=names, headers={"Authorization": f"Basic {encoded}"})

    with McpServer(broker.bootstrap_servers, *arguments) as server:
        assert post(server) == 401
        assert "produce_record" in tools_of(server, "ann")
        assert "list_topics" in tools_of(server, "vera")
        assert "produce_record" not in tools_of(server, "vera")


def test_tools_act_with_the_credentials_of_the_client_file(tmp_path: Path) -> None:
    async def use(tools: Tools) -> object:
        return await tools.call("list_topics")

    with secured_broker(tmp_path) as secured:
        file = str(secured.file())
        found = over_stdio(secured.servers, "--command-config", file, use=use)
        assert found == {"total": 0, "page": 1, "topics": []}
        wrong = properties(tmp_path / "wrong", {**secured.login, "sasl.password": "wrong"})
        with pytest.raises(ToolFailed, match=r"(?i)authentication"):
            over_stdio(secured.servers, "--command-config", str(wrong), use=use)


def test_without_duckdb_there_is_no_sql_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks_duckdb(name: str) -> object:
        return None if name == "duckdb" else find_spec(name)

    async def tools_of_a_server() -> list[str]:
        connections = Connections("127.0.0.1:1", {})
        limits = AnswerLimits()
        access = SqlAccess(
            bootstrap="127.0.0.1:1", settings={}, registry_url=None, registry_settings={}
        )
        reading = ClusterTools(connections, SystemClock(), limits, access)
        try:
            async with Client(mcp_server("127.0.0.1:1", reading, None, limits)) as client:
                return await Tools(client).names()
        finally:
            await connections.close()

    assert "sql" in asyncio.run(tools_of_a_server())
    monkeypatch.setattr("headwater.mcp.mcp_server.find_spec", lacks_duckdb)
    assert "sql" not in asyncio.run(tools_of_a_server())


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "headwater", "mcp", "-b", "127.0.0.1:1", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def test_an_address_for_other_machines_needs_authentication() -> None:
    done = run("--http", "0.0.0.0:0")
    assert done.returncode == 2
    assert "can be reached from other machines: give --token-file" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_that_contradict_each_other_are_rejected(tmp_path: Path) -> None:
    short = tmp_path / "token"
    short.write_text("short")
    http = ["--http", "127.0.0.1:0"]
    for arguments, reason in (
        ([*http, "--token-file", str(short)], "16 characters"),
        (["--token-file", str(short)], "need --http"),
        (["--stdio", *http], "either --stdio or --http"),
    ):
        result = CliRunner().invoke(app, ["mcp", "-b", "127.0.0.1:1", *arguments])
        assert result.exit_code == 2
        assert reason in result.output


def test_a_signal_ends_a_server_over_http(broker: EmbeddedBroker) -> None:
    with McpServer(broker.bootstrap_servers) as server:
        os.kill(server.pid, signal.SIGINT)
        server.stop()
        assert "Traceback" not in server.log_text


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_a_server_whose_client_keeps_standard_input_open(
    number: signal.Signals,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "headwater", "mcp", "-b", "127.0.0.1:1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(number)
        try:
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
        assert b"Traceback" not in process.stderr.read()


def test_the_end_of_standard_input_ends_the_server() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr

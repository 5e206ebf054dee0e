"""`headwater gateway start`: registry, REST API and console in one process."""

import base64
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.client.schema_registry import SchemaRegistry
from headwater.client.serialization.schema_registry_settings import registry_settings
from headwater.common.exceptions import BrokerDidNotStart
from headwater.common.settings.java_properties import parse_properties
from headwater.network.free_ports import free_ports
from headwater.testing import EmbeddedBroker
from headwater.testing.embedded_process import EmbeddedProcess
from tests.certificates import Authority
from tests.rest_server import AVRO, V2

TIMEOUT_S = 60
SCHEMA = json.dumps(
    {"type": "record", "name": "Cup", "fields": [{"name": "kind", "type": "string"}]}
)
_URL = re.compile(r"(\w+)=(https?://[^ ]+)")
FREE_PORTS = [
    word for name in ("registry", "rest", "console") for word in (f"--{name}-listen", "127.0.0.1:0")
]


class Gateway(EmbeddedProcess):
    """A process of `headwater gateway start` on free ports."""

    def __init__(self, bootstrap_servers: str, *arguments: str) -> None:
        super().__init__(
            name="the gateway",
            folder_prefix="headwater-gateway-",
            log_name="gateway.log",
            timeout_s=TIMEOUT_S,
        )
        self._given = ["--bootstrap", bootstrap_servers, *arguments]
        self.urls: Mapping[str, str] = {}
        self.ready_line = ""

    def _arguments(self, _: Path) -> list[str]:
        return ["gateway", "start", *FREE_PORTS, *self._given]

    def _serves(self, line: str) -> None:
        if not line.startswith("headwater gateway ready on "):
            raise BrokerDidNotStart(f"unexpected first line of the gateway: {line!r}")
        self.ready_line = line
        self.urls = dict(_URL.findall(line))


def read_settings(file: Path) -> dict[str, str]:
    return registry_settings(parse_properties(file.read_bytes()))


def ask(
    url: str, body: Any = None, content_type: str = "application/json", **headers: str
) -> tuple[int, str]:
    raw = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": content_type, **headers} if raw is not None else headers
    request = urllib.request.Request(url, raw, given)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def test_console_and_rest_use_the_registry_of_the_gateway(broker: EmbeddedBroker) -> None:
    with Gateway(broker.bootstrap_servers) as gateway:
        assert list(gateway.urls) == ["registry", "rest", "console"]
        with SchemaRegistry(gateway.urls["registry"]) as registry:
            schema_id = registry.register("cups-value", SCHEMA)
        record = {"value_schema_id": schema_id, "records": [{"value": {"kind": "green"}}]}
        status, text = ask(f"{gateway.urls['rest']}/topics/cups", record, AVRO, Accept=V2)
        assert (status, json.loads(text)["offsets"][0]["offset"]) == (200, 0)
        status, text = ask(f"{gateway.urls['console']}/api/topics/cups/records")
        assert status == 200
        [found] = json.loads(text)["records"]
        assert json.loads(found["value"]["text"]) == {"kind": "green"}
        gateway.stop()
        assert not gateway.is_running
        for url in gateway.urls.values():
            with pytest.raises(OSError, match="refused"):
                urllib.request.urlopen(url, timeout=TIMEOUT_S)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("registry", marks=pytest.mark.slow),
        "rest",
        pytest.param("console", marks=pytest.mark.slow),
    ],
)
def test_a_port_in_use_is_reported_with_the_name_of_its_service(
    broker: EmbeddedBroker, name: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [
                sys.executable, "-m", "headwater", "gateway", "start",
                "-b", broker.bootstrap_servers, *FREE_PORTS,
                f"--{name}-listen", f"127.0.0.1:{port}",
            ],
            capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert f"headwater: {name}: cannot listen on HTTP://127.0.0.1:{port}: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_without_a_broker_the_registry_is_named() -> None:
    result = CliRunner().invoke(
        app, ["gateway", "start", "-b", "127.0.0.1:1", *FREE_PORTS], catch_exceptions=False
    )
    assert result.exit_code == 2
    assert "headwater: registry: no broker answers" in result.stderr


def test_users_of_one_file_apply_to_all_three(broker: EmbeddedBroker, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann: secret\n")
    (tmp_path / "gateway.properties").write_text(
        f"authentication.method=BASIC\nheadwater.authentication.users.file={tmp_path}/users\n"
    )
    (tmp_path / "client.properties").write_text(
        "schema.registry.url=http://127.0.0.1:1\nschema.registry.basic.auth.user.info=ann:secret\n"
    )
    login = "Basic " + base64.b64encode(b"ann:secret").decode()
    arguments = ["--config", str(tmp_path / "gateway.properties")]
    arguments += ["--command-config", str(tmp_path / "client.properties")]
    with Gateway(broker.bootstrap_servers, *arguments) as gateway:
        paths = {"registry": "/subjects", "rest": "/topics", "console": "/api/topics"}
        for name, path in paths.items():
            assert ask(gateway.urls[name] + path)[0] == 401
            assert ask(gateway.urls[name] + path, Authorization=login)[0] == 200
        assert gateway.log_text.count("passwords are sent unencrypted") == 1


def test_with_tls_console_and_rest_trust_the_registry_by_its_certificate(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    authority = Authority()
    ca = authority.write(tmp_path / "ca.pem")
    authority.identity("gateway", hosts=["localhost"]).write_pem(tmp_path / "gateway.pem")
    port = free_ports("127.0.0.1", 1)[0]
    (tmp_path / "gateway.properties").write_text(
        f"ssl.keystore.location={tmp_path}/gateway.pem\nssl.keystore.type=PEM\n"
    )
    (tmp_path / "client.properties").write_text(
        f"schema.registry.url=https://localhost:{port}\n"
        f"schema.registry.ssl.truststore.location={ca}\n"
        "schema.registry.ssl.truststore.type=PEM\n"
    )
    arguments = ["--config", str(tmp_path / "gateway.properties")]
    arguments += ["--command-config", str(tmp_path / "client.properties")]
    arguments += ["--registry-listen", f"127.0.0.1:{port}"]
    with Gateway(broker.bootstrap_servers, *arguments) as gateway:
        assert all(url.startswith("https://") for url in gateway.urls.values())
        with SchemaRegistry(settings=read_settings(tmp_path / "client.properties")) as registry:
            registry.register("jars-value", SCHEMA)
        url = gateway.urls["console"].replace("127.0.0.1", "localhost") + "/api/schemas"
        context = ssl.create_default_context(cafile=str(ca))
        with urllib.request.urlopen(url, timeout=TIMEOUT_S, context=context) as got:
            assert "jars-value" in got.read().decode()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("listeners=http://127.0.0.1:1\n", "listeners is one address, and a gateway has three"),
        (
            "authentication.method=BASIC\nheadwater.authentication.users.file=users\n",
            "give --registry URL",
        ),
    ],
)
def test_settings_that_cannot_work_are_rejected_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users").write_text("ann: secret\n")
    (tmp_path / "gateway.properties").write_text(lines)
    result = CliRunner().invoke(
        app, ["gateway", "start", "-b", "127.0.0.1:1", "--config", "gateway.properties"]
    )
    assert result.exit_code == 2
    assert reason in result.stderr


def test_services_can_be_left_out(broker: EmbeddedBroker) -> None:
    arguments = ["--without", "registry", "--without", "rest", "--read-only"]
    with Gateway(broker.bootstrap_servers, *arguments) as gateway:
        assert list(gateway.urls) == ["console"]
        assert gateway.ready_line.rstrip().endswith(", console read only)")
        os.kill(gateway.pid, signal.SIGINT)
        gateway.stop()
    nothing = [word for name in ("registry", "rest", "console") for word in ("--without", name)]
    result = CliRunner().invoke(app, ["gateway", "start", *nothing])
    assert result.exit_code == 2
    assert "nothing is left to run" in result.output

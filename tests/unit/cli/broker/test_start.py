"""`headwater start`: arguments, settings and one-line errors."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.broker.node.broker_process import Serving
from headwater.cli.broker.start import start
from headwater.cli.main import app
from headwater.common.exceptions import (
    CannotListen,
    DirectoryInUse,
    HeadwaterError,
    StorageError,
    WrongLogDirectory,
)
from headwater.metadata.effective_configs import StaticConfig
from headwater.network.endpoint import Endpoint


class ScriptedBroker:
    """A fake node: ready at once, records its settings, and returns."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.static: StaticConfig | None = None
        self._failure = failure

    def __call__(self, static: StaticConfig, ready: Callable[[Serving], None]) -> None:
        self.static = static
        if self._failure is not None:
            raise self._failure
        ready(Serving([Endpoint(name="PLAINTEXT", host="127.0.0.1", port=4711)], "the-cluster"))

    @property
    def texts(self) -> dict[str, str]:
        assert self.static is not None
        return dict(self.static.texts)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "node.id=7\nlisteners=PLAINTEXT://here:1\nadvertised.listeners=PLAINTEXT://there:1\n"
        "log.dirs=/srv/a,/srv/b\nnum.partitions=3\n",
        encoding="latin-1",
    )
    return path


def started(*arguments: str) -> dict[str, str]:
    broker = ScriptedBroker()
    assert start(arguments, broker) == 0
    return broker.texts


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error line of a start that fails before there is a broker."""
    try:
        code: object = start(arguments, ScriptedBroker())
    except SystemExit as end:
        code = end.code
    assert code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("headwater: ")
    assert output.err.count("\n") == 1
    return output.err


def test_without_a_file_it_listens_on_localhost_and_stores_data_in_the_working_directory() -> None:
    assert started() == {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "./data"}


def test_server_properties_are_read_as_in_kafka(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"# nothing said\nnum.partitions = 3\n")
    assert started("--config", str(path)) == {"num.partitions": "3"}


def test_a_flag_wins_over_an_option_and_an_option_over_the_file(properties: Path) -> None:
    texts = started(
        *("--config", str(properties), "--data", "/d", "--node-id", "9"),
        *("-o", "num.partitions=5", "-o", "log.retention.hours=1"),
    )
    assert texts == {
        "node.id": "9",
        "listeners": "PLAINTEXT://here:1",
        "advertised.listeners": "PLAINTEXT://there:1",
        "log.dirs": "/d",
        "num.partitions": "5",
        "log.retention.hours": "1",
    }


def test_listen_drops_the_advertised_listeners_of_the_file(
    properties: Path,
) -> None:
    texts = started("--config", str(properties), "--listen", "[::1]:0")
    assert texts["listeners"] == "PLAINTEXT://[::1]:0"
    assert "advertised.listeners" not in texts


def test_advertised_listeners_given_as_an_option_are_kept() -> None:
    advertised = "advertised.listeners=PLAINTEXT://outside:9"
    texts = started("--listen", "127.0.0.1:0", "-o", advertised)
    assert texts["advertised.listeners"] == "PLAINTEXT://outside:9"


def test_the_metrics_address_is_a_setting() -> None:
    assert started("--metrics", "127.0.0.1:9464")["headwater.metrics.listener"] == "127.0.0.1:9464"


def test_the_ready_line_is_printed_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    started("--data", "/d", "--node-id", "3")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(
        "headwater ready on 127.0.0.1:4711 (node 3, cluster the-cluster, data /d, "
    )


def test_each_setting_without_effect_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    started("-o", "zookeeper.max.in.flight.requests=10", "-o", "num.io.threads=4")
    first, second = capsys.readouterr().err.splitlines()
    words = "WARNING cli.broker.start: Setting has no effect: name="
    assert f"{words}zookeeper.max.in.flight.requests reason=Headwater has a fixed value" in first
    assert f"{words}num.io.threads reason=Accepted for compatibility; one event loop" in second


def test_an_unknown_setting_is_logged_with_the_nearest_known_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "num.partitons" not in started("-o", "num.partitons=3")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "WARNING cli.broker.start: Setting ignored: name=num.partitons "
        "reason=unknown broker setting num.partitons; did you mean num.partitions?"
    )


def test_strict_rejects_all_unknown_settings_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = refusal(capsys, "--strict", "-o", "num.partitons=3", "-o", "super.user=User:a")
    assert "did you mean num.partitions?" in line
    assert "did you mean super.users?" in line


def test_strict_accepts_settings_of_kafka_without_effect() -> None:
    assert started("--strict", "-o", "process.roles=broker,controller")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--config", "nowhere.properties"], "cannot read nowhere.properties: No such file"),
        (["--listen", "here"], "--listen here: an address must be host:port, not 'here'"),
        (["--node-id", "x"], "node.id=x: must be a whole number"),
        (["--data", " "], "--data is empty"),
        (["-o", "num.partitions"], "-o num.partitions: must be KEY=VALUE"),
        (["-o", "num.partitions=0"], "num.partitions=0: must be between 1"),
        (["-o", "node.id=1", "-o", "node.id=2"], "-o node.id is given twice"),
        (["--node-id", "1", "-o", "node.id=1"], "--node-id and -o node.id set the same setting"),
        (["--data", "a", "-o", "log.dir=b"], "--data and -o log.dir set the same setting"),
        (
            ["-o", "zookeeper.set.acl=true"],
            "zookeeper.set.acl=true: ACLs of znodes are not supported",
        ),
        (["-o", "ssl.client.auth=maybe"], "must be one of none, requested, required"),
        (["--dta", "x"], "unrecognized arguments: --dta x; see headwater start --help"),
        (["--log-format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_invalid_arguments_exit_with_one_line_and_code_2(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refusal(capsys, *arguments)


def test_a_malformed_properties_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.properties"
    path.write_bytes(b"a=\\u12\n")
    assert f"{path} is not a properties file" in refusal(capsys, "--config", str(path))
    assert "cannot read" in refusal(capsys, "--config", str(tmp_path))


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        (CannotListen("cannot listen on x: Address already in use"), "--listen"),
        (
            DirectoryInUse("/d is in use"),
            "stop that broker, or choose another directory",
        ),
        (WrongLogDirectory("/d belongs to node 3"), "--node-id"),
        (StorageError("no space"), "--data"),
    ],
)
def test_a_failed_start_says_what_to_do(
    failure: HeadwaterError, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start([], ScriptedBroker(failure)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"headwater: {failure}")
    assert advice in line


def test_an_interrupt_before_the_broker_serves_prints_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert start([], ScriptedBroker(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == ""


def test_start_is_listed_and_has_help() -> None:
    assert "start" in CliRunner().invoke(app, ["--help"]).stdout
    explained = subprocess.run(
        [sys.executable, "-m", "headwater", "start", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"--listen +HOST:PORT", explained.stdout)
    assert "HOST:PORT,.../chroot" in explained.stdout


def test_a_broker_does_not_import_terminal_libraries() -> None:
    """Each of these modules would delay the start and stay in memory."""
    code = (
        "import sys\n"
        "from headwater.cli.entry import main\n"
        "sys.argv = ['headwater', 'start', '--node-id', 'x']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'typer', 'rich', 'pyarrow', 'numpy', 'kio', 'hypothesis'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

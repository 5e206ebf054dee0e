"""`headwater storage`: options, output and one-line errors."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.common.ids import TopicId

SETTINGS = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
}
CLUSTER = ("--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg")
DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg"


def properties(folder: Path, **changes: str) -> str:
    texts = {**SETTINGS, "log.dirs": str(folder / "data")}
    texts.update({name.replace("_", "."): text for name, text in changes.items()})
    path = folder / "server.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in texts.items() if text))
    return str(path)


def storage(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["storage", *arguments])
    return result.exit_code, result.output


def test_random_uuid_prints_an_id() -> None:
    code, output = storage("random-uuid")
    assert code == 0
    assert str(TopicId.parse(output.strip())) == output.strip()


def test_a_formatted_directory_is_described(tmp_path: Path) -> None:
    config = properties(tmp_path)
    assert storage("info", "-c", config)[0] == 1
    code, output = storage("format", "-c", config, *CLUSTER, "--standalone")
    assert (code, output) == (
        0,
        f"Formatting dynamic metadata voter directory {tmp_path}/data with metadata.version "
        "4.1-IV1.\n",
    )
    code, output = storage("info", "-c", config)
    assert code == 0
    assert output.startswith(f"Found log directory:\n  {tmp_path}/data\n\nFound metadata: {{")
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qg" in output
    assert "node.id=1, version=1}" in output
    assert storage("format", "-c", config, *CLUSTER, "--standalone")[0] == 1
    code, output = storage("format", "-c", config, *CLUSTER, "--standalone", "--ignore-formatted")
    assert (code, output) == (0, "All of the log directories are already formatted.\n")


def test_credentials_are_stored_without_their_password(tmp_path: Path) -> None:
    config = properties(tmp_path)
    scram = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
    assert storage("format", "-c", config, *CLUSTER, "-s", "--add-scram", scram)[0] == 0
    content = (tmp_path / "data/bootstrap.checkpoint").read_bytes()
    assert b"alice" in content
    assert b"alice-secret" not in content


@pytest.mark.parametrize(
    ("changes", "options", "complaint"),
    [
        ({"process_roles": ""}, ("-s",), "process.roles is not set"),
        ({}, (), "you must specify one of the following"),
        ({}, ("-s", "-N"), "give only one of"),
        (
            {"controller_quorum_voters": "1@localhost:9093"},
            ("-s",),
            "You cannot specify controller.quorum.voters",
        ),
        ({}, ("-I", f"2@localhost:9093:{DIRECTORY_ID}"), "does not have this node"),
        ({}, ("-I", "1@localhost:9093"), "must be id@host:port:directoryId"),
        ({}, ("-s", "-r", "9.9"), "unknown metadata.version"),
        ({}, ("-s", "-f", "group.version"), "must be name=level"),
        ({}, ("-s", "-f", "kraft.version=0"), "requires kraft.version 1"),
        ({}, ("-s", "-S", "PLAIN=[name=a,password=b]"), "--add-scram must be"),
        ({}, ("-s", "-S", "SCRAM-SHA-256=[name=a]"), "either password or saltedpassword"),
        ({"controller_listener_names": ""}, ("-s",), "controller.listener.names is required"),
        ({"controller_quorum_voters": "one"}, (), "must be id@host:port"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, str], options: tuple[str, ...], complaint: str
) -> None:
    config = properties(tmp_path, **changes)
    code, output = storage("format", "-c", config, *CLUSTER, *options)
    assert code == 1
    assert complaint in " ".join(output.split())
    assert not (tmp_path / "data").exists()

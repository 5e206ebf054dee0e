"""The commands that need Spark, as far as they come without it: what they refuse and how they tell.

What is wrong must be said at once; nobody waits for a JVM to hear of a misspelt option.
"""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.cli.mirror import _Terminal
from headwater.testing import EmbeddedBroker


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--topics", "("], "topics is no regular expression"),
        (["--topics", "tea", "--alias", "a.b"], "letters, digits, _ and -"),
        (["--topics", "tea", "--source-setting", "nonsense=1"], "no setting of this client"),
    ],
)
def test_a_mirror_that_cannot_be_is_refused_at_once(options: list[str], reason: str) -> None:
    code, output = run("mirror", "127.0.0.1:1", "127.0.0.1:1", *options)
    assert code == 2
    assert reason in output


def test_a_cluster_is_not_copied_onto_itself_and_spark_not_started_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Where there is no Java, Spark would be the first to complain.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with EmbeddedBroker() as broker:
        here = broker.bootstrap_servers
        assert run("mirror", here, here, "--topics", "tea", "--identity", "--once") == (
            1,
            "headwater: source and target are the same cluster: "
            "topics would be copied onto themselves\n",
        )


def test_a_mirror_tells_people_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter((0.0, 2.0))
    terminal = _Terminal(clock=lambda: next(seconds))
    terminal.tell({"event": "topic", "topic": "tea", "copy": "source.tea"})
    terminal.tell({"event": "progress", "records": 1_000, "bytes": 0, "lag": 9_000})
    terminal.tell({"event": "progress", "records": 5_000, "bytes": 2**21, "lag": 5_000})
    terminal.tell({"event": "left out", "topic": "x", "reason": "has come from the target cluster"})
    assert capsys.readouterr().out.splitlines() == [
        "tea is copied to source.tea",
        "1,000 records copied, 9,000 to go",
        "5,000 records copied, 2,000 records/s, 1.0 MiB/s, 5,000 to go",
        "x is left out: it has come from the target cluster",
    ]


def test_connectors_are_listed() -> None:
    code, output = run("connect", "list", "--json")
    assert code == 0
    rows = [json.loads(line) for line in output.splitlines()]
    assert {"connector": "postgresql", "import": True, "export": True} in rows


def test_an_import_without_a_broker_is_told_at_once(tmp_path: Path) -> None:
    words = ["connect", "import", "files", "tea", "--checkpoint", str(tmp_path)]
    code, output = run(*words, "--bootstrap", "127.0.0.1:1")
    assert code == 1
    assert "no broker answers" in output

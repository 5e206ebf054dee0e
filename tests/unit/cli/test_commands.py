"""The shared classes of commands: lazy loading, flags, conversion of values."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from headwater.cli.broker.start import parser
from headwater.cli.commands import Command, load
from headwater.cli.main import COMMANDS, app
from headwater.testing import EmbeddedBroker

# Each costs more CPU than the rest of a short command, or belongs to other commands.
NOT_FOR_A_SHORT_COMMAND = {
    "crc32c",
    "fastavro",
    "headwater.broker",
    "headwater.cli.broker",
    "headwater.cli.data",
    "headwater.cli.doctor",
    "headwater.cli.groups",
    "headwater.cli.security",
    "headwater.cli.spark",
    "headwater.cli.web",
    "headwater.client.consumer.blocking_consumer",
    "headwater.client.producer",
    "headwater.records.kernel",
    "importlib.metadata",
    "numpy",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "starlette",
    "yaml",
}
PROGRAM = """
import sys
from headwater.cli.entry import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def test_a_short_command_does_not_import_what_it_does_not_use(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=me\n")
    with EmbeddedBroker() as broker:
        words = ["topics", "list", "-b", broker.bootstrap_servers, "--command-config", str(config)]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    loaded = set(done.stderr.split())
    assert "headwater.client.admin.aio_admin" in loaded
    assert loaded & NOT_FOR_A_SHORT_COMMAND == set()


def test_help_lists_commands_without_importing_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert all(name in done.stdout for name in COMMANDS)
    assert "headwater.cli.topics" not in done.stderr.split()


@pytest.mark.parametrize("name", COMMANDS)
def test_summaries_are_those_of_the_commands(name: str) -> None:
    command = load(name, COMMANDS[name])
    assert " ".join(command.help.split("\n\n")[0].split()) == COMMANDS[name].summary


def test_help_of_start_has_the_options_that_start_accepts() -> None:
    declared = get_command(app).commands["start"]  # type: ignore[attr-defined]
    shown = {name for each in declared.params for name in each.opts}
    accepted = {name for each in parser()._actions for name in each.option_strings}
    assert shown == accepted - {"-h", "--help"}
    defaults = {each.dest: each.default for each in parser()._actions}
    for each in declared.params:
        assert (each.default or None) == (defaults[each.name.strip("_")] or None)


def test_flags_are_shown_without_a_type() -> None:
    shown = CliRunner().invoke(app, ["topics", "list", "--help"]).output
    assert "--json" in shown
    assert "bool" not in shown


def test_unknown_commands_get_a_suggestion() -> None:
    result = CliRunner().invoke(app, ["topcs"])
    assert result.exit_code == 2
    assert "Did you mean 'topics'?" in result.output


def converter() -> typer.Typer:
    made = typer.Typer(add_completion=False)

    @made.command(cls=Command)
    def command(
        count: Annotated[int, typer.Option(min=1, max=9)] = 1,
        share: float = 0.5,
        flag: bool = False,
        names: Annotated[list[str] | None, typer.Option()] = None,
        file: Annotated[Path | None, typer.Option(exists=True, dir_okay=False)] = None,
        path: Path | None = None,
    ) -> None:
        typer.echo(repr((count, share, flag, names, file, path)))

    return made


def test_plain_values_are_converted(tmp_path: Path) -> None:
    words = ["--count", "3", "--share", "2", "--flag", "--names", "a", "--names", "b"]
    words += ["--file", __file__, "--path", str(tmp_path / "new")]
    result = CliRunner().invoke(converter(), words)
    expected = (3, 2.0, True, ["a", "b"], Path(__file__), tmp_path / "new")
    assert result.output == f"{expected!r}\n"


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--count", "-3"], "Invalid value for '--count'"),
        (["--count", "10"], "Invalid value for '--count'"),
        (["--count", "x"], "Invalid value for '--count'"),
        (["--share", "1.5"], "1.5"),
        (["--share", "x"], "Invalid value for '--share'"),
        (["--file", "missing"], "'missing' does not exist"),
        (["--file", "."], "is a directory"),
    ],
)
def test_other_values_and_errors_are_typers(words: list[str], output: str) -> None:
    result = CliRunner().invoke(converter(), words)
    assert output in result.output
    assert result.exit_code == (0 if output == "1.5" else 2)


def test_help_joins_lines_and_shows_placeholders_instead_of_types() -> None:
    shown = CliRunner().invoke(app, ["produce", "--help"], env={"COLUMNS": "100"}).stdout
    words = " ".join(shown.split())
    assert "produce [OPTIONS] TOPIC [FILE...]" in words
    assert "Keys are encoded if --key-format or --key-schema is given." in words
    assert "HOST:PORT,..." in words
    assert not [each for each in words.split() if each.startswith("<")]


def test_help_shows_brackets_of_examples() -> None:
    shown = CliRunner().invoke(app, ["storage", "format", "--help"], env={"COLUMNS": "200"}).stdout
    assert "SCRAM-SHA-256=[name=alice,password=alice-secret]" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["topics", "create", "tea", "-p", "many"], "many is not a whole number"),
        (["consume", "tea", "--timeout", "soon"], "soon is not a number"),
        (["consume", "tea", "--max", "0"], "0 is less than 1"),
        (["consume", "tea", "-p", "1", "-p", "x"], "1, x is not a whole number"),
        (["zookeeper", "--ensemble", "10"], "10 is more than 9"),
        (["sql", "select 1", "--format", "xml"], "'--format': 'xml' is not one of 'table'"),
    ],
)
def test_wrong_values_are_reported_in_plain_words(words: list[str], problem: str) -> None:
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert problem in " ".join(done.output.split())

"""Options, output and errors shared by all commands that talk to brokers.

Commands print rows: a table, or with `--json` one JSON object per line. Errors are one line on
standard error with exit code 1; invalid arguments and missing packages exit with 2.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, NoReturn, TextIO, TypeVar

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from headwater.client import Admin, TopicPartition
    from headwater.client.errors import KafkaError

DEFAULT_BOOTSTRAP: Final = "localhost:9092"

_PIPE_WIDTH: Final = 10_000
"""Columns of a table that does not go to a terminal."""

_VERTICAL: Final = ("name", "value")

_FIRST_ANSWER_S: Final = 5.0
"""A client would retry for a minute or more; too long to wait at a terminal."""

_EXTRAS: Final = {
    "pyspark": "spark",
    "py4j": "spark",
    "numpy": "spark",
    "pandas": "spark",
    "google": "spark",
    "yaml": "spark",
    "adbc_driver_manager": "connect",
    "adbc_driver_postgresql": "connect",
    "kazoo": "cluster",
}
"""The extra of the headwater package that installs a missing module."""

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADWATER_BOOTSTRAP",
        help="Comma-separated list of brokers (host:port).",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="HEADWATER_COMMAND_CONFIG",
        exists=True,
        dir_okay=False,
        help="Properties file with client settings, such as TLS and SASL.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]

Row = Mapping[str, object]
K = TypeVar("K")
V = TypeVar("V")


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print errors of clients as one line and exit."""
    from headwater.client.errors import SomeFailed
    from headwater.common.exceptions import HeadwaterError, InvalidSetting

    try:
        yield
    except SomeFailed as error:
        exit_with_errors(error.errors.values())
    except InvalidSetting as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(2) from error
    except HeadwaterError as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(1) from error
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        line = f"{error.name} is not installed: pip install 'headwater[{extra}]'"
        typer.echo(f"headwater: {line}", err=True)
        raise typer.Exit(2) from error
    except BrokenPipeError as error:
        # The reader closed the pipe. Drop what is buffered.
        sys.stdout = None
        raise typer.Exit(0) from error
    except OSError as error:
        # The disk is full, or the terminal is gone.
        typer.echo(f"headwater: {error.strerror or error}", err=True)
        sys.stdout = None
        raise typer.Exit(1) from error


def client_settings(bootstrap: str, command_config: Path | None) -> dict[str, object]:
    """Client settings of the command; --bootstrap overrides the brokers in the file."""
    from headwater.client.serialization.schema_registry_settings import is_registry_setting

    given = settings_in(command_config)
    found = {name: value for name, value in given.items() if not is_registry_setting(name)}
    return {**found, "bootstrap.servers": bootstrap}


def registry_settings(command_config: Path | None) -> dict[str, str]:
    """The settings of the file for schema registry clients."""
    from headwater.client.serialization.schema_registry_settings import registry_settings

    return registry_settings(settings_in(command_config))


def settings_in(file: Path | None) -> dict[str, str]:
    """Read a properties file; no file is an empty one."""
    from headwater.common.settings.java_properties import parse_properties

    if file is None:
        return {}
    try:
        return parse_properties(file.read_bytes())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"cannot read {file}: {error}") from error


@contextmanager
def admin_of(bootstrap: str, command_config: Path | None = None) -> Iterator["Admin"]:
    """An admin client, with errors printed as one line."""
    from headwater.client.admin.admin_calls import AdminSettings
    from headwater.client.settings import supported_settings

    # The file may be shared with producers and consumers and have settings of theirs.
    settings = supported_settings(AdminSettings, client_settings(bootstrap, command_config))
    with admin_with(settings) as admin:
        yield admin


@contextmanager
def admin_with(settings: Mapping[str, object]) -> Iterator["Admin"]:
    """An admin client with these settings, with errors printed as one line."""
    from headwater.client import Admin

    with exit_on_error(), Admin({"client.id": "headwater-cli", **settings}) as admin:
        _await_answer(admin)
        yield admin


def check_broker(bootstrap: str, command_config: Path | None = None) -> None:
    """Fail quickly if no broker answers, for commands without an admin client."""
    with admin_of(bootstrap, command_config):
        pass


def _await_answer(admin: "Admin") -> None:
    from headwater.client.errors import KafkaTimeout, UnsupportedVersion
    from headwater.client.network.retries import last_kafka_error

    try:
        admin.describe_cluster(timeout=_FIRST_ANSWER_S)
    except KafkaTimeout as error:
        raise KafkaTimeout(f"no broker answers: {last_kafka_error(error) or error}") from error
    except UnsupportedVersion:
        # An old broker, but it has answered.
        return


def show(rows: Sequence[Row], *, as_json: bool, columns: Sequence[str]) -> None:
    """Print rows as a table with these columns, or as JSON with all fields."""
    with exit_on_error():
        if as_json:
            for row in rows:
                typer.echo(json.dumps(row, default=str))
        else:
            _show_table(rows, columns)


def errors_of(ask: Callable[[], object]) -> "Mapping[Any, KafkaError]":
    """Call a batched operation; return the errors per item if only some items failed."""
    from headwater.client.errors import SomeFailed

    try:
        ask()
    except SomeFailed as error:
        return error.errors
    return {}


def outcomes_of(
    ask: Callable[[], Mapping[K, V]],
) -> "tuple[Mapping[K, V], Mapping[K, KafkaError]]":
    """Call a batched operation and return results and errors per item."""
    from headwater.client.errors import SomeFailed

    try:
        return ask(), {}
    except SomeFailed as error:
        return error.results, error.errors


def show_found(
    rows: Sequence[Row],
    errors: "Mapping[Any, KafkaError]",
    *,
    as_json: bool,
    columns: Sequence[str],
) -> None:
    """Print the rows, then the errors, and exit with 1 if there are errors."""
    if rows or not errors:
        show(rows, as_json=as_json, columns=columns)
    if errors:
        exit_with_errors(errors.values())


def exit_with_errors(errors: "Iterable[KafkaError]") -> NoReturn:
    """Print one line per error and exit with 1."""
    for each in errors:
        typer.echo(f"headwater: {each}", err=True)
    raise typer.Exit(1)


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether the stream is a terminal; None is a stream that the shell has closed."""
    return stream is not None and stream.isatty()


def binary_output() -> IO[bytes]:
    return _binary(sys.stdout, "output")


def binary_input() -> IO[bytes]:
    return _binary(sys.stdin, "input")


def _binary(stream: TextIO | None, name: str) -> IO[bytes]:
    if stream is None:
        typer.echo(f"headwater: standard {name} is closed", err=True)
        raise typer.Exit(1)
    return stream.buffer


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a status line if standard error is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{text} ..."):
            yield
    else:
        yield


def show_done(
    rows: Sequence[Row], *, as_json: bool, errors: "Mapping[Any, KafkaError] | None" = None
) -> None:
    """Report a change: silent on success except with --json.

    If some items failed, the successful ones are printed too.
    """
    if as_json or (errors and rows):
        show(rows, as_json=as_json, columns=list(rows[0]) if rows else [])
    if errors:
        exit_with_errors(errors.values())


def check_partitions(admin: "Admin", places: "Iterable[TopicPartition]") -> None:
    """Fail if a topic or partition does not exist; a client would wait for it."""
    wanted = sorted(places)
    described = admin.describe_topics(sorted({place.topic for place in wanted}))
    missing = [
        (topic, number)
        for topic, number in wanted
        if all(each.partition != number for each in described[topic].partitions)
    ]
    for topic, number in missing:
        typer.echo(f"headwater: {topic} has no partition {number}", err=True)
    if missing:
        raise typer.Exit(1)


def _show_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print a table without truncation; print rows vertically if it is too wide."""
    from rich.console import Console

    console = Console(width=_PIPE_WIDTH, highlight=False)
    table = _table(rows, columns)
    is_wide = is_terminal(sys.stdout) and console.measure(table).maximum > Console().width
    if not is_wide or not rows:
        console.print(table)
        return
    for index, row in enumerate(rows):
        if index:
            console.print()
        vertical = _table([{"name": each, "value": row.get(each)} for each in columns], _VERTICAL)
        vertical.show_header = False
        console.print(vertical)


def _table(rows: Sequence[Row], columns: Sequence[str]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = bool(rows) and isinstance(rows[0].get(column), int | float)
        table.add_column(
            column.upper(),
            justify="right" if is_number else "left",
            no_wrap=True,
        )
    for row in rows:
        # As Text, because a client id may contain rich markup.
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    return table


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """Parse name=value arguments."""
    found = {}
    for each in given:
        name, is_pair, value = each.partition("=")
        if not is_pair or not name:
            raise typer.BadParameter(f"{each!r} is not name=value", param_hint=option)
        found[name] = value
    return found


def topic_partition(text: str) -> "TopicPartition":
    """Parse `topic:3` or `topic-3`."""
    from headwater.client import TopicPartition

    for separator in (":", "-"):
        topic, _, number = text.rpartition(separator)
        if topic and number.isdecimal():
            return TopicPartition(topic, int(number))
    raise typer.BadParameter(f"{text!r} is not topic:partition, such as tea:0")


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)

"""Options, output and errors shared by all commands that talk to brokers.

Commands print rows: a table, or with `--json` one JSON object per line. Errors are one line on
standard error with exit code 1; invalid arguments and missing packages exit with 2.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, NoReturn, TextIO, TypeVar
from unicodedata import combining, east_asian_width

import typer

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition
    from headwater.client.errors import KafkaError

DEFAULT_BOOTSTRAP: Final = "localhost:9092"

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
    "duckdb": "sql",
    "polars": "sql",
}
"""The extra of the headwater package that installs a missing module."""

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADWATER_BOOTSTRAP",
        help="One or more brokers of the cluster.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="HEADWATER_COMMAND_CONFIG",
        exists=True,
        dir_okay=False,
        help="Properties file with client settings, for example for TLS and SASL. Default: none.",
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
        print_error(str(error), error)
        raise typer.Exit(2) from error
    except HeadwaterError as error:
        print_error(str(error), error)
        raise typer.Exit(1) from error
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        print_error(f"{error.name} is not installed: pip install 'headwater[{extra}]'", error)
        raise typer.Exit(2) from error
    except BrokenPipeError as error:
        # The reader closed the pipe. Drop what is buffered.
        sys.stdout = None
        raise typer.Exit(0) from error
    except OSError as error:
        # The disk is full, or the terminal is gone.
        print_error(str(error.strerror or error), error)
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
        print_error(str(each), each)
    raise typer.Exit(1)


def print_error(text: str, error: BaseException | None = None) -> None:
    """Print an error as one line on standard error: text, or an object with --json."""
    if not _state.errors_as_json:
        typer.echo(f"headwater: {text}", err=True)
        return
    code = getattr(error, "code", None)
    kind = getattr(code, "name", None) or (type(error).__name__ if error else None)
    typer.echo(json.dumps({"error": kind, "message": text}), err=True)


def hint(text: str) -> None:
    """Print advice on standard error, for people only."""
    if not _state.errors_as_json:
        typer.echo(f"headwater: {text}", err=True)


@dataclass(slots=True)
class _State:
    errors_as_json: bool = False


_state = _State()


def print_errors_as_json(wanted: bool) -> None:
    """Set the format of errors for the command that runs."""
    _state.errors_as_json = wanted


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
    if not is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        # TERM=dumb or TTY_COMPATIBLE=0.
        yield
        return
    with console.status(f"{text} ..."):
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
        print_error(f"{topic} has no partition {number}")
    if missing:
        raise typer.Exit(1)


def _show_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print a table without truncation; print rows vertically if it is too wide.

    Note: rich would do this too, but its import costs more than a short command.
    """
    is_there = is_terminal(sys.stdout)
    lines = _table(rows, columns)
    if is_there and rows and max(map(_width, lines)) > get_terminal_size().columns:
        lines = _vertical(rows, columns)
    elif is_there:
        lines[0] = typer.style(lines[0], bold=True)
    for line in lines:
        typer.echo(line)


def _table(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    texts = [[_cell(row.get(column)) for column in columns] for row in rows]
    heads = [column.upper() for column in columns]
    is_number = [bool(rows) and _is_number(rows, column) for column in columns]
    widths = [max(map(_width, each)) for each in zip(heads, *texts, strict=True)]
    return [
        "  ".join(
            _padded(text, width, is_right=right)
            for text, width, right in zip(each, widths, is_number, strict=True)
        ).rstrip()
        for each in (heads, *texts)
    ]


def _is_number(rows: Sequence[Row], column: str) -> bool:
    found = next((row[column] for row in rows if row.get(column) is not None), None)
    return isinstance(found, int | float) and not isinstance(found, bool)


def _vertical(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    width = max(map(_width, columns))
    lines: list[str] = []
    for index, row in enumerate(rows):
        if index:
            lines.append("")
        lines += [f"{_padded(each, width)}  {_cell(row.get(each))}" for each in columns]
    return lines


def _padded(text: str, width: int, *, is_right: bool = False) -> str:
    gap = " " * (width - _width(text))
    return gap + text if is_right else text + gap


def _width(text: str) -> int:
    """Columns of a text in a terminal; wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )


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
            return printable(",".join(map(str, value)))
        case _:
            return printable(str(value))


def printable(text: str) -> str:
    """Escape control characters: a client id must not move the cursor of a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)

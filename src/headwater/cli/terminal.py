"""What all commands that talk to brokers share: where these are, and how answers and errors look.

A command prints rows: as a table for people, or with `--json` as one JSON object per line for
scripts. An error is one line on standard error, and exit code 1; wrong arguments, and packages that
are not installed, exit with 2.
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

_ENDLESS: Final = 10_000
"""The width of a pipe, in columns."""

_UPRIGHT: Final = ("name", "value")

_FIRST_ANSWER_S: Final = 5.0
"""A client goes on trying for a minute or more; nobody at a terminal waits for that in silence."""

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
"""What brings a package that is not there."""

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADWATER_BOOTSTRAP",
        help="Brokers to begin with, as host:port, parted by commas.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="HEADWATER_COMMAND_CONFIG",
        exists=True,
        dir_okay=False,
        help="A properties file of client settings, such as those of TLS and of a login.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]

Row = Mapping[str, object]
K = TypeVar("K")
V = TypeVar("V")


@contextmanager
def failing_clearly() -> Iterator[None]:
    """Errors of clients as one line each."""
    from headwater.client.errors import SomeFailed
    from headwater.common.exceptions import HeadwaterError, InvalidSetting

    try:
        yield
    except SomeFailed as error:
        tell_errors(error.errors.values())
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
        line = f"this needs {error.name}, which is not installed: pip install 'headwater[{extra}]'"
        typer.echo(f"headwater: {line}", err=True)
        raise typer.Exit(2) from error
    except BrokenPipeError as error:
        # Whoever reads has seen enough. What is left in the buffer has nowhere to go.
        sys.stdout = None
        raise typer.Exit(0) from error
    except OSError as error:
        # The disk is full, or the terminal is gone.
        typer.echo(f"headwater: {error.strerror or error}", err=True)
        sys.stdout = None
        raise typer.Exit(1) from error


def client_settings(bootstrap: str, command_config: Path | None) -> dict[str, object]:
    """What a client of this command begins with. What the file says of brokers gives way."""
    from headwater.client.serialization.schema_registry_settings import is_registrys

    said = settings_in(command_config)
    found = {name: value for name, value in said.items() if not is_registrys(name)}
    return {**found, "bootstrap.servers": bootstrap}


def registry_settings(command_config: Path | None) -> dict[str, str]:
    """What a client of a schema registry begins with."""
    from headwater.client.serialization.schema_registry_settings import registry_part

    return registry_part(settings_in(command_config))


def settings_in(file: Path | None) -> dict[str, str]:
    """All that a file of settings says; nothing, if there is none."""
    from headwater.common.settings.java_properties import parse_properties

    if file is None:
        return {}
    try:
        return parse_properties(file.read_bytes())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}") from error


@contextmanager
def admin_of(bootstrap: str, command_config: Path | None = None) -> Iterator["Admin"]:
    """An admin client, whose errors are told clearly."""
    from headwater.client.admin.admin_calls import AdminSettings
    from headwater.client.settings import useful_settings

    # A file that is shared with a producer has settings that are of no use here.
    settings = useful_settings(AdminSettings, client_settings(bootstrap, command_config))
    with admin_with(settings) as admin:
        yield admin


@contextmanager
def admin_with(settings: Mapping[str, object]) -> Iterator["Admin"]:
    """An admin client with these settings, whose errors are told clearly."""
    from headwater.client import Admin

    with failing_clearly(), Admin({"client.id": "headwater-cli", **settings}) as admin:
        _await_answer(admin)
        yield admin


def expect_broker(bootstrap: str, command_config: Path | None = None) -> None:
    """For commands that go on without an admin client: end clearly where no broker answers."""
    with admin_of(bootstrap, command_config):
        pass


def _await_answer(admin: "Admin") -> None:
    from headwater.client.errors import KafkaTimeout, UnsupportedVersion
    from headwater.client.network.retries import said_before

    try:
        admin.describe_cluster(timeout=_FIRST_ANSWER_S)
    except KafkaTimeout as error:
        raise KafkaTimeout(f"no broker answers: {said_before(error) or error}") from error
    except UnsupportedVersion:
        # An old one, which has answered all the same.
        return


def show(rows: Sequence[Row], *, as_json: bool, columns: Sequence[str]) -> None:
    """Rows as a table, or as JSON. JSON has all fields, the table only its columns."""
    with failing_clearly():
        if as_json:
            for row in rows:
                typer.echo(json.dumps(row, default=str))
        else:
            _show_table(rows, columns)


def errors_of(ask: Callable[[], object]) -> "Mapping[Any, KafkaError]":
    """Ask for several things. What failed while others succeeded; nothing, if all did."""
    from headwater.client.errors import SomeFailed

    try:
        ask()
    except SomeFailed as error:
        return error.errors
    return {}


def outcomes_of(
    ask: Callable[[], Mapping[K, V]],
) -> "tuple[Mapping[K, V], Mapping[K, KafkaError]]":
    """Ask for several things. What was found, and what failed."""
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
    """What was found, and then a line for each thing that was not."""
    if rows or not errors:
        show(rows, as_json=as_json, columns=columns)
    if errors:
        tell_errors(errors.values())


def tell_errors(errors: "Iterable[KafkaError]") -> NoReturn:
    """A line for each, and the end."""
    for each in errors:
        typer.echo(f"headwater: {each}", err=True)
    raise typer.Exit(1)


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether somebody looks at it. There is no stream where a shell has closed it."""
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
    """Say at a terminal what takes so long; to nobody else."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{text} ..."):
            yield
    else:
        yield


def tell_done(
    rows: Sequence[Row], *, as_json: bool, errors: "Mapping[Any, KafkaError] | None" = None
) -> None:
    """What a command has done that prints nothing when all went well, except to scripts.

    When something failed, people too want to know what did not.
    """
    if as_json or (errors and rows):
        show(rows, as_json=as_json, columns=list(rows[0]) if rows else [])
    if errors:
        tell_errors(errors.values())


def expect_partitions(admin: "Admin", places: "Iterable[TopicPartition]") -> None:
    """End clearly where a topic or partition does not exist: a client would wait for it."""
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
    """Nothing is cut off or folded: rows that are too wide for a terminal stand upright."""
    from rich.console import Console

    console = Console(width=_ENDLESS, highlight=False)
    table = _table(rows, columns)
    is_wide = is_terminal(sys.stdout) and console.measure(table).maximum > Console().width
    if not is_wide or not rows:
        console.print(table)
        return
    for index, row in enumerate(rows):
        if index:
            console.print()
        upright = _table([{"name": each, "value": row.get(each)} for each in columns], _UPRIGHT)
        upright.show_header = False
        console.print(upright)


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
        # As texts, because what clients name themselves may look like rich's markup.
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    return table


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """Texts of the form name=value."""
    found = {}
    for each in given:
        name, is_pair, value = each.partition("=")
        if not is_pair or not name:
            raise typer.BadParameter(f"{each!r} is not name=value", param_hint=option)
        found[name] = value
    return found


def topic_partition(text: str) -> "TopicPartition":
    """`topic:3` or `topic-3` as a partition."""
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

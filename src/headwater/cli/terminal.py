"""What all commands that talk to brokers share: where these are, and how answers and errors look.

A command prints rows: as a table for people, or with `--json` as one JSON object per line for
scripts. An error is one line on standard error, and exit code 1; wrong arguments exit with 2.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition

DEFAULT_BOOTSTRAP: Final = "localhost:9092"

_FIRST_ANSWER_S: Final = 5.0
"""A client goes on trying for a minute or more; nobody at a terminal waits for that in silence."""

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADWATER_BOOTSTRAP",
        help="Brokers to begin with, as host:port, parted by commas.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]

Row = Mapping[str, object]


@contextmanager
def failing_clearly() -> Iterator[None]:
    """Errors of clients as one line each."""
    from headwater.client.errors import SomeFailed
    from headwater.model.failures import HeadwaterError, InvalidSetting

    try:
        yield
    except SomeFailed as error:
        for each in error.errors.values():
            typer.echo(f"headwater: {each}", err=True)
        raise typer.Exit(1) from error
    except InvalidSetting as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(2) from error
    except HeadwaterError as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(1) from error
    except BrokenPipeError as error:
        # Whoever reads has seen enough. What is left in the buffer has nowhere to go.
        sys.stdout = None
        raise typer.Exit(0) from error
    except OSError as error:
        # The disk is full, or the terminal is gone.
        typer.echo(f"headwater: {error.strerror or error}", err=True)
        sys.stdout = None
        raise typer.Exit(1) from error


@contextmanager
def admin_of(bootstrap: str) -> Iterator["Admin"]:
    """An admin client, whose errors are told clearly."""
    from headwater.client import Admin

    with failing_clearly(), Admin(bootstrap_servers=bootstrap, client_id="headwater-cli") as admin:
        _await_answer(admin)
        yield admin


def expect_broker(bootstrap: str) -> None:
    """For commands that go on without an admin client: end clearly where no broker answers."""
    with admin_of(bootstrap):
        pass


def _await_answer(admin: "Admin") -> None:
    from headwater.client.errors import KafkaTimeout, UnsupportedVersion

    try:
        admin.describe_cluster(timeout=_FIRST_ANSWER_S)
    except KafkaTimeout as error:
        why = error.__cause__ if str(error.__cause__) else error
        raise KafkaTimeout(f"no broker answers: {why}") from error
    except UnsupportedVersion:
        # An old one, which has answered all the same.
        return


def show(rows: Sequence[Row], *, as_json: bool, columns: Sequence[str]) -> None:
    """Rows as a table, or as JSON. JSON has all fields, the table only its columns."""
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, default=str))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = bool(rows) and isinstance(rows[0].get(column), int | float)
        table.add_column(column.upper(), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        # As texts, because what clients name themselves may look like rich's markup.
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    # A pipe has no width; there nothing may be cut off.
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    console.print(table)


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
    raise typer.BadParameter(f"{text!r} is not topic:partition")


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)

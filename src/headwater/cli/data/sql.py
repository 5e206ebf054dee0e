"""`headwater sql`: query topics, once, as they grow, or in a shell.

Note: a query runs in a thread, so that Ctrl-C ends it at once: Python runs signal handlers in the
main thread only, which would otherwise wait in DuckDB.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.data.sql_output import OutputFormat, format_of, opened_writer
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    check_broker,
    client_settings,
    exit_on_error,
    is_terminal,
    registry_settings,
)
from headwater.cli.times import short_duration_ms

if TYPE_CHECKING:
    from headwater.sql import QueryProgress, QueryResult, SqlSession

INTERRUPTED: Final = 130
ROWS_MAX: Final = 1_000
_REFRESH_S: Final = 0.1
_END_S: Final = 10.0


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help='A query, such as "select count(*) from orders". Default: read from standard '
            "input, or open a shell if that is a terminal.",
            show_default=False,
        ),
    ] = None,
    output_format: Annotated[
        OutputFormat | None,
        typer.Option(
            "--format",
            help="Output format: table, csv, json, parquet or arrow. Default: by the name of the "
            "--output file; table without --output.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            dir_okay=False,
            help="Write the result to this file. Default: standard output.",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=0, help="Print at most this many rows as a table; 0: all.")
    ] = ROWS_MAX,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Print which offsets and columns the query would read, and DuckDB's plan; do not "
            "run it.",
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Run the query about once a second on the records that have arrived in the "
            "first topic that it names, until Ctrl-C.",
        ),
    ] = False,
    statistics: Annotated[
        bool,
        typer.Option(
            "--stats", help="Print on standard error how many bytes and records were read."
        ),
    ] = False,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="HEADWATER_REGISTRY",
            help="Schema registry; default: schema.registry.url of --command-config, or none.",
        ),
    ] = None,
    value_format: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TOPIC=]FORMAT",
            help="Format of values, of all topics or of one: auto, avro, protobuf, json-schema, "
            "json, text or bytes; repeatable. Default: auto.",
        ),
    ] = None,
    key_format: Annotated[
        list[str] | None,
        typer.Option(metavar="[TOPIC=]FORMAT", help="Format of keys, as for --value-format."),
    ] = None,
    max_lateness: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How much older a timestamp may be than one before it, such as 5m. An upper bound "
            "on _timestamp then ends reading in topics with CreateTime, too. Default: unlimited.",
        ),
    ] = None,
    memory_limit: Annotated[
        str,
        typer.Option(help="Maximum memory of DuckDB; what does not fit goes to temporary files."),
    ] = "1GB",
    external_access: Annotated[
        bool,
        typer.Option(
            "--external-access/--no-external-access",
            help="Allow or forbid queries to read and write files.",
        ),
    ] = True,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Query topics with SQL. Topics are tables of DuckDB."""
    if query is None and not is_terminal(sys.stdin):
        query = sys.stdin.read() if sys.stdin is not None else ""
    if query is not None and not query.strip():
        raise typer.BadParameter("there is no query", param_hint="QUERY")
    if query is None and (follow or explain or output is not None):
        raise typer.BadParameter("--follow, --explain and --output need a query")
    chosen = format_of(output_format, output)
    if follow and (output is not None or chosen in (OutputFormat.PARQUET, OutputFormat.ARROW)):
        raise typer.BadParameter("a query that is followed is printed as table, csv or json")
    lateness_ms = None if max_lateness is None else short_duration_ms(max_lateness)
    with exit_on_error():
        import headwater.sql
        from headwater.client.consumer.consumer_settings import ConsumerSettings
        from headwater.client.serialization.schema_registry_settings import URL
        from headwater.client.settings import supported_settings

        check_broker(bootstrap, command_config)
        for_registry = registry_settings(command_config)
        with headwater.sql.connect(
            bootstrap,
            settings=supported_settings(
                ConsumerSettings, client_settings(bootstrap, command_config)
            ),
            registry=registry or for_registry.get(URL),
            registry_settings=for_registry,
            value_formats=_formats(value_format),
            key_formats=_formats(key_format),
            max_lateness_ms=lateness_ms,
            memory_limit=memory_limit,
            external_access=external_access,
        ) as session:
            if query is None:
                from headwater.cli.data.sql_shell import run_shell

                run_shell(session, bootstrap, rows_max=rows, stats=statistics)
            elif explain:
                typer.echo(session.explain(query))
            elif follow:
                follow_query(session, query, chosen, rows)
            else:
                run_query(
                    session, query, chosen, output, rows_max=rows, shows_statistics=statistics
                )


def _formats(given: list[str] | None) -> dict[str, str]:
    """Formats by topic; the one for all others has no topic."""
    found: dict[str, str] = {}
    for each in given or []:
        topic, is_pair, name = each.rpartition("=")
        found[topic if is_pair else "*"] = name
    return found


def run_query(
    session: "SqlSession",
    query: str,
    output_format: OutputFormat,
    output: Path | None = None,
    *,
    rows_max: int = ROWS_MAX,
    shows_statistics: bool = False,
) -> None:
    """Run a query and write its rows, with a progress bar on a terminal."""
    from headwater.sql import QueryProgress

    progress = QueryProgress()

    def work() -> None:
        with (
            session.sql(query, progress=progress) as result,
            opened_writer(output_format, output, result.schema, rows_max=rows_max) as writer,
        ):
            _write(result, writer.write)
            warn(result.warnings())

    in_thread(work, progress)
    if shows_statistics:
        typer.echo(statistics_text(progress), err=True)


def _write(result: "QueryResult", write: Callable[..., bool]) -> None:
    for batch in result.batches():
        if not write(batch):
            return


def follow_query(
    session: "SqlSession", query: str, output_format: OutputFormat, rows_max: int
) -> None:
    """Print the rows of each result until Ctrl-C."""
    from headwater.sql import QueryProgress

    stop = threading.Event()
    progress = QueryProgress()
    progress.on_cancel(stop.set)

    def work() -> None:
        for result in session.follow(query, stop=stop):
            progress.on_cancel(result.progress.cancel)
            with (
                result,
                opened_writer(output_format, None, result.schema, rows_max=rows_max) as writer,
            ):
                _write(result, writer.write)
                warn(result.warnings())

    if is_terminal(sys.stdout):
        typer.echo("Waiting for records. Press Ctrl-C to exit.", err=True)
    try:
        in_thread(work, progress, shows_progress=False)
    except typer.Exit:
        # Ctrl-C is how a query that is followed ends.
        return


def warn(lines: list[str]) -> None:
    for each in lines:
        typer.echo(f"headwater: {each}", err=True)


def in_thread(
    work: Callable[[], None], progress: "QueryProgress", *, shows_progress: bool = True
) -> None:
    """Run a query in a thread; Ctrl-C cancels it and exits."""
    from headwater.sql import QueryCancelled

    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            errors.append(error)

    thread = threading.Thread(target=run, name="headwater-sql-query", daemon=True)
    thread.start()
    try:
        with _progress_bar(progress, is_shown=shows_progress) as refresh:
            while thread.is_alive():
                thread.join(_REFRESH_S)
                refresh()
    except KeyboardInterrupt:
        progress.cancel()
        thread.join(_END_S)
        raise typer.Exit(INTERRUPTED) from None
    if errors:
        if isinstance(errors[0], QueryCancelled):
            raise typer.Exit(INTERRUPTED)
        raise errors[0]


@contextmanager
def _progress_bar(progress: "QueryProgress", *, is_shown: bool) -> Iterator[Callable[[], None]]:
    """Show bytes read on standard error, if it is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not is_shown or not console.is_terminal:
        yield lambda: None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    with Progress(
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[read]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("read", total=None, read="")

        def refresh() -> None:
            counts = progress.statistics
            bar.update(
                task,
                completed=counts.offsets_read,
                total=counts.total_offsets or None,
                read=f"{size_text(counts.bytes_read)} read, {counts.records_read:,} records",
            )

        yield refresh


def statistics_text(progress: "QueryProgress") -> str:
    counts = progress.statistics
    noun = "record" if counts.records_read == 1 else "records"
    return f"read {size_text(counts.bytes_read)}, {counts.records_read:,} {noun}"


def size_text(size_bytes: float) -> str:
    """A size such as 1.5 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if size_bytes < 1_000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1_000
    return f"{size_bytes:.1f} TB"

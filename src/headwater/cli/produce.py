"""`headwater produce`: lines of a file, or of standard input, as records."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    binary_input,
    client_settings,
    expect_partitions,
    failing_clearly,
    is_terminal,
    pairs,
    tell_done,
)

if TYPE_CHECKING:
    from headwater.client import RecordFuture


def _some_separator(text: str | None) -> str | None:
    if text == "":
        raise typer.BadParameter("an empty text parts nothing")
    return text


def produce(
    topic: Annotated[str, typer.Argument(help="The topic.", show_default=False)],
    file: Annotated[
        Path | None,
        typer.Argument(help="A file of lines; standard input, if none.", show_default=False),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "-K",
            help="What stands between key and value, in every line.",
            callback=_some_separator,
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="name=value, for every record.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Else the key chooses.")
    ] = None,
    null_marker: Annotated[
        str | None, typer.Option(help="What stands for null, as a key or as a value.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", "-s", help="A setting of the producer, as name=value."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Send lines as records. Exits with 1 if a record could not be sent."""
    from headwater.client import Producer

    headers = [(name, value.encode()) for name, value in pairs(header or [], "--header").items()]
    settings: dict[str, object] = {
        **client_settings(bootstrap, command_config),
        "client.id": "headwater-cli",
        "linger.ms": 5,
        # A topic or partition that does not exist is waited for as long as this.
        "max.block.ms": 10_000,
        **pairs(setting or [], "--setting"),
    }
    failures: list[BaseException | str] = []

    def sent(future: "RecordFuture") -> None:
        error = future.exception()
        if error is not None:
            failures.append(error)

    _expect_partition(bootstrap, command_config, topic, partition)
    separator = None if key_separator is None else key_separator.encode()
    null = None if null_marker is None else null_marker.encode()
    count = 0
    with failing_clearly(), Producer(settings) as producer:
        for number, line in enumerate(_lines(file), 1):
            parted = _parted(line, separator)
            if parted is None:
                # As a value without a key it would go to any partition, and nobody would know.
                failures.append(f"line {number} has no {key_separator!r} behind a key")
                break
            key, value = parted
            future = producer.send(
                topic,
                None if value == null else value,
                key=None if key == null else key,
                partition=partition,
                headers=headers,
            )
            future.add_done_callback(sent)
            count += 1
            if failures:
                break
        producer.flush()
    if failures:
        typer.echo(f"headwater: {failures[0]}", err=True)
        raise typer.Exit(1)
    if is_terminal(sys.stderr) and not as_json:
        typer.echo(f"{count} {'record' if count == 1 else 'records'} sent", err=True)
    tell_done([{"topic": topic, "records": count}], as_json=as_json)


def _expect_partition(
    bootstrap: str, command_config: Path | None, topic: str, number: int | None
) -> None:
    """End where a producer would wait: without a broker, or with no such partition."""
    from headwater.client import TopicPartition
    from headwater.client.errors import UnknownTopicOrPartition

    with admin_of(bootstrap, command_config) as admin:
        if number is not None:
            # A topic that is not there may be made by the first record.
            with suppress(UnknownTopicOrPartition):
                expect_partitions(admin, [TopicPartition(topic, number)])


def _parted(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes] | None:
    """Key and value; nothing, if there is no separator where one should be."""
    if separator is None:
        return None, line
    key, is_there, value = line.partition(separator)
    return (key, value) if is_there else None


def _lines(file: Path | None) -> Iterator[bytes]:
    """Lines without their ends; for a file, with a progress bar on a terminal."""
    if file is None:
        if is_terminal(sys.stdin):
            typer.echo("Each line is a record. Ctrl-D ends.", err=True)
        yield from (line.rstrip(b"\r\n") for line in binary_input())
        return
    try:
        size_bytes = file.stat().st_size
        source = file.open("rb")
    except OSError as error:
        typer.echo(f"headwater: {file}: {error.strerror}", err=True)
        raise typer.Exit(2) from error
    with source, ExitStack() as shown:
        advance = _progress(shown, size_bytes) if is_terminal(sys.stderr) else None
        yield from _read(source, advance)


def _read(source: IO[bytes], advance: "object | None") -> Iterator[bytes]:
    for line in source:
        if callable(advance):
            advance(len(line))
        yield line.rstrip(b"\r\n")


def _progress(shown: ExitStack, size_bytes: int) -> object:
    from rich.console import Console
    from rich.progress import Progress

    progress = shown.enter_context(Progress(console=Console(stderr=True)))
    task = progress.add_task("sent", total=size_bytes)

    def advance(count: int) -> None:
        progress.advance(task, count)

    return advance

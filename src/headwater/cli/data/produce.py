"""`headwater produce`: send the lines of files or of standard input as records."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.completion import topic_names
from headwater.cli.data.command_clients import console_settings
from headwater.cli.data.line_records import Headers, LineFormat, unescaped
from headwater.cli.data.registered_values import (
    AUTO,
    RAW,
    KeyFormat,
    Registry,
    ValueFormat,
    encoder,
    expect_registry,
    registry_of,
)
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    binary_input,
    check_partitions,
    exit_on_error,
    is_terminal,
    pairs,
    show_done,
)

if TYPE_CHECKING:
    from headwater.client import RecordFuture

_STANDARD_INPUT = Path("-")


def _some_separator(text: str | None) -> str | None:
    if text == "":
        raise typer.BadParameter("a separator must not be empty")
    return None if text is None else unescaped(text)


def produce(
    topic: Annotated[
        str, typer.Argument(help="Topic name.", show_default=False, autocompletion=topic_names)
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files with one record per line; - or none: standard input.",
            show_default=False,
        ),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "-K",
            help="Separator between key and value; required in every line. Default: lines "
            "have no key.",
            callback=_some_separator,
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="Header name=value for every record; repeatable."),
    ] = None,
    headers_separator: Annotated[
        str | None,
        typer.Option(
            help="Separator after the headers (name=value,name=value) at the start of every line.",
            callback=_some_separator,
        ),
    ] = None,
    from_json: Annotated[
        bool,
        typer.Option(
            "--from-json",
            help="Each line is a record in the format of `headwater consume --json`.",
        ),
    ] = False,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", min=0, help="Partition to send to; default: chosen by the key."
        ),
    ] = None,
    null_marker: Annotated[
        str | None,
        typer.Option(help="Text that stands for a null key, value or header value. Default: none."),
    ] = None,
    registry: Registry = None,
    value_format: ValueFormat = AUTO,
    key_format: KeyFormat = RAW,
    value_schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Schema of values (.avsc, .json, .proto); default: the latest of TOPIC-value.",
        ),
    ] = None,
    key_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Schema of keys; default: the latest of TOPIC-key."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", "-s", help="Producer setting, name=value; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Send each line as a record. Exits with 1 if a record could not be sent.

    With --registry each value is JSON and is encoded with its schema. Keys are encoded if
    --key-format or --key-schema is given.
    """
    from headwater.client.producer.producer_settings import ProducerSettings

    if from_json and (key_separator or headers_separator or null_marker is not None):
        raise typer.BadParameter(
            "--from-json excludes --key-separator, --headers-separator and --null-marker"
        )
    given = pairs(setting or [], "--setting")
    null = None if null_marker is None else null_marker.encode()
    with exit_on_error():
        lines = LineFormat(
            key_separator=key_separator,
            headers_separator=headers_separator,
            null=null,
            is_json=from_json,
            headers=_headers(header or [], null),
            typed_key=_typed(given, "key.serializer"),
            typed_value=_typed(given, "value.serializer"),
        )
    is_value_encoded = registry is not None or value_schema is not None or value_format != AUTO
    with exit_on_error(), registry_of(registry, command_config) as known:
        expect_registry(known, (value_format, key_format))
        if known is None and (value_schema or key_schema):
            raise typer.BadParameter("a schema needs a registry: give --registry URL")
        if known is not None and is_value_encoded and value_format != RAW:
            value = encoder(known, f"{topic}-value", value_format, value_schema)
            lines = replace(lines, typed_value=value)
        if known is not None and (key_format != RAW or key_schema is not None):
            of_key = AUTO if key_format == RAW else key_format
            key = encoder(known, f"{topic}-key", of_key, key_schema)
            lines = replace(lines, typed_key=key)
    _expect_partition(bootstrap, command_config, topic, partition)
    count, failure = _send(
        console_settings(
            ProducerSettings,
            bootstrap,
            command_config,
            {
                "client.id": "headwater-cli",
                "linger.ms": 5,
                # The producer waits this long for a topic or partition that does not exist.
                "max.block.ms": 10_000,
                **given,
            },
        ),
        topic,
        partition,
        lines,
        files or [_STANDARD_INPUT],
    )
    if failure is not None:
        typer.echo(f"headwater: {failure}", err=True)
        raise typer.Exit(1)
    if is_terminal(sys.stderr) and not as_json:
        typer.echo(f"{count} {'record' if count == 1 else 'records'} sent", err=True)
    show_done([{"topic": topic, "records": count}], as_json=as_json)


def _send(
    settings: Mapping[str, object],
    topic: str,
    partition: int | None,
    lines: LineFormat,
    files: Sequence[Path],
) -> tuple[int, str | None]:
    """Send lines up to the first failure; return the number sent and the first error."""
    from headwater.client import Producer
    from headwater.client.errors import (
        InvalidTimestamp,
        KafkaError,
        MessageTooLarge,
        SerializationFailed,
    )

    failures: list[str] = []

    def sent(future: "RecordFuture") -> None:
        error = future.exception()
        if error is not None:
            failures.append(str(error))

    count = 0
    # A bad line ends the loop, not the producer: leaving the block by an exception would abort
    # the batches that are still buffered.
    with exit_on_error(), Producer(settings) as producer:
        for where, line in _lines(files):
            try:
                record = lines.read(line)
                future = producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    partition=partition,
                    timestamp=record.timestamp,
                    headers=record.headers,
                )
            except (ValueError, MessageTooLarge, SerializationFailed, InvalidTimestamp) as error:
                failures.append(f"{where}: {error}")
                break
            except KafkaError as error:
                failures.append(str(error))
                break
            future.add_done_callback(sent)
            count += 1
            if failures:
                break
        producer.flush()
    return count, failures[0] if failures else None


def _headers(given: Sequence[str], null: bytes | None) -> Headers:
    """Parse --header options; names may repeat."""
    found: list[tuple[str, bytes | None]] = []
    for each in given:
        for name, value in pairs([each], "--header").items():
            raw = value.encode()
            found.append((name, None if raw == null else raw))
    return tuple(found)


def _typed(settings: Mapping[str, str], name: str) -> Callable[[bytes], Any]:
    """Return the conversion from the bytes in a line to what the serializer expects."""
    from headwater.client.serialization.serdes import serializer

    chosen = settings.get(name)
    if serializer(chosen, name) is None:
        return bytes
    return json.loads if chosen == "json" else bytes.decode


def _expect_partition(
    bootstrap: str, command_config: Path | None, topic: str, number: int | None
) -> None:
    """Fail early where a producer would wait: no broker, or no such partition."""
    from headwater.client import TopicPartition
    from headwater.client.errors import UnknownTopicOrPartition

    with admin_of(bootstrap, command_config) as admin:
        if number is not None:
            # The first record may create a missing topic.
            with suppress(UnknownTopicOrPartition):
                check_partitions(admin, [TopicPartition(topic, number)])


def _lines(files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield lines without line ends and their location; show progress on a terminal."""
    sizes = [_size_bytes(file) for file in files if file != _STANDARD_INPUT]
    with ExitStack() as opened:
        is_shown = bool(sizes) and is_terminal(sys.stderr)
        advance = _progress(opened, sum(sizes)) if is_shown else None
        for file in files:
            name = "" if len(files) == 1 else f"{file}, "
            for number, line in enumerate(_lines_of(file, advance), 1):
                yield f"{name}line {number}", line.removesuffix(b"\n").removesuffix(b"\r")


def _lines_of(file: Path, advance: Callable[[int], None] | None) -> Iterator[bytes]:
    if file == _STANDARD_INPUT:
        if is_terminal(sys.stdin):
            typer.echo("Each line is a record. Press Ctrl-D to finish.", err=True)
        yield from binary_input()
        return
    with _exiting_if_unreadable(file):
        source = file.open("rb")
    with source:
        for line in source:
            if advance is not None:
                advance(len(line))
            yield line


def _size_bytes(file: Path) -> int:
    """Size of a file; checked for all files before the first line is sent."""
    with _exiting_if_unreadable(file):
        return file.stat().st_size


@contextmanager
def _exiting_if_unreadable(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        typer.echo(f"headwater: {file}: {error.strerror}", err=True)
        raise typer.Exit(2) from error


def _progress(shown: ExitStack, size_bytes: int) -> Callable[[int], None]:
    from rich.console import Console
    from rich.progress import Progress

    progress = shown.enter_context(Progress(console=Console(stderr=True)))
    task = progress.add_task("sent", total=size_bytes)

    def advance(count: int) -> None:
        progress.advance(task, count)

    return advance

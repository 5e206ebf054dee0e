"""`headwater consume`: print records as values, in a format or as JSON.

Note: Ctrl-C calls `wakeup` instead of raising KeyboardInterrupt. An exception in the middle of a
poll would drop records whose offsets have already advanced, and the group would skip them.
"""

import base64
import json
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.completion import group_names, topic_names
from headwater.cli.data.command_clients import console_settings
from headwater.cli.data.line_records import unescaped
from headwater.cli.data.registered_values import (
    AUTO,
    Decode,
    KeyFormat,
    RegisteredDecoder,
    Registry,
    ValueFormat,
    expect_registry,
    registry_of,
)
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    binary_output,
    check_partitions,
    exit_on_error,
    is_terminal,
    pairs,
    print_error,
)
from headwater.cli.times import timestamp_ms

if TYPE_CHECKING:
    from headwater.client import Consumer, ConsumerRecord, TopicPartition
    from headwater.client.schema_registry import SchemaRegistry

_POLL_S = 0.5
_FAILURES_SHOWN = 10
_FIELDS: dict[str, Callable[["ConsumerRecord"], bytes]] = {
    "%t": lambda record: record.topic.encode(),
    "%p": lambda record: b"%d" % record.partition,
    "%o": lambda record: b"%d" % record.offset,
    "%T": lambda record: b"%d" % record.timestamp,
    "%%": lambda _: b"%",
}


def consume(
    topic: Annotated[
        str, typer.Argument(help="Topic name.", show_default=False, autocompletion=topic_names)
    ],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", "-f", help="Start at the earliest offset.")
    ] = False,
    offset: Annotated[
        int | None,
        typer.Option(
            help="Start at this offset; negative: count back from the end. An offset beyond the "
            "end starts at the end."
        ),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            help="Start at the first record at or after this time: ISO 8601 or milliseconds "
            "since 1970."
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            help="Consume only this partition; repeatable. Default: all partitions.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            autocompletion=group_names,
            help="Join this consumer group and start at its committed offsets. Not with "
            "--partition, --offset, --from-time or --exit.",
        ),
    ] = None,
    max_records: Annotated[
        int | None,
        typer.Option("--max", "-n", min=1, help="Exit after this many records. Default: no limit."),
    ] = None,
    exit_at_end: Annotated[
        bool,
        typer.Option(
            "--exit",
            "-e",
            help="Exit after the records that the topic had when the command started.",
        ),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, help="Exit if no record arrives for this many seconds. Default: wait forever."
        ),
    ] = None,
    null_marker: Annotated[str, typer.Option(help="Text to print for null.")] = "",
    fmt: Annotated[
        str,
        typer.Option(
            "--format",
            help="Output format: %t topic, %p partition, %o offset, %T timestamp, %k key, "
            "%v value, %h headers.",
        ),
    ] = r"%v\n",
    registry: Registry = None,
    value_format: ValueFormat = AUTO,
    key_format: KeyFormat = AUTO,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", "-s", help="Consumer setting, name=value; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print records of a topic. By default starts at the end of the topic.

    If a schema registry is known, keys and values with a schema id are printed as JSON. What
    cannot be decoded is printed as it is, reported on standard error, and the exit code is 1.
    """
    from headwater.client import Consumer
    from headwater.client.consumer.consumer_settings import ConsumerSettings

    if group is not None and (partition or offset is not None or from_time or exit_at_end):
        raise typer.BadParameter(
            "--group cannot be combined with --partition, --offset, --from-time or --exit: the "
            "group assigns partitions and offsets; use --max or --timeout to exit"
        )
    # An offset beyond the end must not reset to the earliest offset.
    begins_early = offset is None and (from_beginning or from_time is not None)
    given: dict[str, object] = {
        "client.id": "headwater-cli",
        "auto.offset.reset": "earliest" if begins_early else "latest",
        **({} if group is None else {"group.id": group}),
        **pairs(setting or [], "--setting"),
    }
    settings = console_settings(ConsumerSettings, bootstrap, command_config, given)
    write = _as_json if as_json else _formatted(fmt, null_marker.encode())
    output = binary_output()
    _expect_topic(bootstrap, command_config, topic, partition or [])
    with (
        exit_on_error(),
        registry_of(registry, command_config) as known,
        Consumer(settings) as consumer,
    ):
        expect_registry(known, (value_format, key_format))
        decoded = None if known is None else _Decoded(known, key_format, value_format)
        if group is not None:
            consumer.subscribe([topic])
            ends = None
        else:
            ends = _assign(consumer, topic, partition, offset, from_time, exit_at_end=exit_at_end)
        if is_terminal(sys.stdout) and ends is None:
            typer.echo("Waiting for records. Press Ctrl-C to exit.", err=True)
        with (
            _woken_by_interrupt(consumer),
            closing(_records(consumer, output, max_records, timeout, ends)) as records,
        ):
            for record in records:
                output.write(write(record if decoded is None else decoded(record)))
        output.flush()
    if decoded is not None and decoded.failures:
        raise typer.Exit(1)


class _Decoded:
    """Decode keys and values; keep what does not decode unchanged."""

    def __init__(self, registry: "SchemaRegistry", key_format: str, value_format: str) -> None:
        from headwater.client.errors import SerializationFailed

        decoder = RegisteredDecoder(registry)
        self._key = decoder.decoder(key_format)
        self._value = decoder.decoder(value_format)
        self._failure = SerializationFailed
        self.failures = 0

    def __call__(self, record: "ConsumerRecord") -> "ConsumerRecord":
        return record._replace(
            key=self._field(record, "key", record.key, self._key),
            value=self._field(record, "value", record.value, self._value),
        )

    def _field(self, record: "ConsumerRecord", name: str, raw: Any, decode: Decode) -> Any:
        if not isinstance(raw, bytes):
            return raw
        try:
            return decode(raw)
        except self._failure as error:
            self.failures += 1
            if self.failures <= _FAILURES_SHOWN:
                place = f"{record.topic}-{record.partition} offset {record.offset}"
                print_error(f"{place}: cannot decode the {name}: {error}", error)
            elif self.failures == _FAILURES_SHOWN + 1:
                print_error("further records that cannot be decoded are not reported")
            return raw


@contextmanager
def _woken_by_interrupt(consumer: "Consumer") -> Iterator[None]:
    """Make the first Ctrl-C wake up the next poll, and the second one interrupt."""
    from headwater.client.errors import WokenUp

    before = signal.getsignal(signal.SIGINT)

    def wake(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        consumer.wakeup()

    signal.signal(signal.SIGINT, wake)
    try:
        yield
    except WokenUp:
        return
    finally:
        signal.signal(signal.SIGINT, before)


def _expect_topic(
    bootstrap: str, command_config: Path | None, topic: str, numbers: list[int]
) -> None:
    """Fail if the topic or partition is missing; a consumer would wait or create it."""
    from headwater.client import TopicPartition

    with admin_of(bootstrap, command_config) as admin:
        check_partitions(admin, [TopicPartition(topic, each) for each in numbers or [0]])


def _assign(
    consumer: "Consumer",
    topic: str,
    numbers: list[int] | None,
    offset: int | None,
    from_time: str | None,
    *,
    exit_at_end: bool,
) -> dict["TopicPartition", int] | None:
    """Assign partitions and seek; return the end offsets if that is where to exit."""
    from headwater.client import TopicPartition

    places = [TopicPartition(topic, each) for each in numbers or consumer.partitions_for(topic)]
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    if offset is not None:
        first = consumer.beginning_offsets(places)
        for place in places:
            wanted = offset if offset >= 0 else max(ends[place] + offset, first[place])
            if not first[place] <= wanted <= ends[place]:
                _warn_out_of_range(place, wanted, first[place], ends[place])
            # An offset beyond the end is left to the broker's reset: only the broker knows the
            # log end offset above the high watermark.
            consumer.seek(place, max(wanted, first[place]))
    elif from_time is not None:
        found = consumer.offsets_for_times(dict.fromkeys(places, timestamp_ms(from_time)))
        for place, where in found.items():
            consumer.seek(place, ends[place] if where is None else where.offset)
    return ends if exit_at_end else None


def _warn_out_of_range(place: "TopicPartition", wanted: int, first: int, end: int) -> None:
    there = f"offsets {first} to {end - 1}" if end > first else "no records"
    begins = first if wanted < first else end
    line = f"headwater: {place} has no offset {wanted}, it has {there}; starting at {begins}"
    typer.echo(line, err=True)


def _records(
    consumer: "Consumer",
    output: IO[bytes],
    limit: int | None,
    timeout: float | None,
    ends: dict["TopicPartition", int] | None,
) -> Generator["ConsumerRecord", None, None]:
    """Yield records until the limit, timeout or end; commit only printed ones."""
    count = 0
    idle_s = 0.0
    while not _is_at_end(consumer, ends):
        records = consumer.poll(_POLL_S)
        idle_s = 0.0 if records else idle_s + _POLL_S
        for index, record in enumerate(records):
            try:
                yield record
            except GeneratorExit:
                _give_back(consumer, records[index:])
                raise
            count += 1
            if count == limit:
                _give_back(consumer, records[index + 1 :])
                return
        if not records:
            output.flush()
        if timeout is not None and idle_s >= timeout:
            return


def _give_back(consumer: "Consumer", records: Sequence["ConsumerRecord"]) -> None:
    """Seek back to records that were polled but not printed."""
    from headwater.client import TopicPartition

    for record in reversed(records):
        consumer.seek(TopicPartition(record.topic, record.partition), record.offset)


def _is_at_end(consumer: "Consumer", ends: dict["TopicPartition", int] | None) -> bool:
    return ends is not None and all(consumer.position(place) >= end for place, end in ends.items())


def _formatted(fmt: str, null: bytes) -> Callable[["ConsumerRecord"], bytes]:
    """Compile a format into a function from record to bytes."""
    fields = {**_FIELDS, **_content(null)}
    text = unescaped(fmt)
    pieces: list[Callable[[ConsumerRecord], bytes]] = []
    position = 0
    while position < len(text):
        field = fields.get(text[position : position + 2])
        if field is not None:
            pieces.append(field)
            position += 2
        else:
            pieces.append(_constant(text[position].encode()))
            position += 1
    return lambda record: b"".join(piece(record) for piece in pieces)


def _content(null: bytes) -> dict[str, Callable[["ConsumerRecord"], bytes]]:
    def shown(value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        if value is None:
            return null
        # The object of a deserializer.
        return value.encode() if isinstance(value, str) else json.dumps(value, default=str).encode()

    return {
        "%k": lambda record: shown(record.key),
        "%v": lambda record: shown(record.value),
        "%h": lambda record: b",".join(
            name.encode("utf-8", "surrogateescape") + b"=" + shown(value)
            for name, value in record.headers
        ),
    }


def _constant(plain: bytes) -> Callable[["ConsumerRecord"], bytes]:
    return lambda _: plain


def _as_json(record: "ConsumerRecord") -> bytes:
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    return json.dumps(fields, default=str).encode() + b"\n"


def _text(raw: Any) -> object:
    """Text as it is; bytes that are not UTF-8 as {"base64": ...}."""
    if not isinstance(raw, bytes):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}

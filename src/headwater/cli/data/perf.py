"""`headwater perf`: measure throughput and latency like Kafka's perf tools.

Note: produce latency runs from `send` to the acknowledgement, so it includes the time in which a
batch fills up. `end-to-end` sends one record at a time.
"""

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from random import Random
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.completion import topic_names
from headwater.cli.data.command_clients import console_settings
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    check_broker,
    check_partitions,
    exit_on_error,
    pairs,
    show,
)

if TYPE_CHECKING:
    from headwater.client import RecordFuture

app = typer.Typer(no_args_is_help=True, help="Measure throughput and latency.")

Topic = Annotated[
    str, typer.Argument(help="Topic name.", show_default=False, autocompletion=topic_names)
]
Records = Annotated[int, typer.Option("--records", "-n", min=1, help="Number of records.")]
Size = Annotated[int, typer.Option("--size", min=0, help="Size of each value in bytes.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--setting", "-s", help="Client setting, name=value; repeatable."),
]

_IDLE_POLL_S: Final = 0.2
_MEBIBYTE: Final = 1_048_576
# Larger than the window of the codecs, so that repeated payloads do not compress.
_POOL_BYTES: Final = 4 * _MEBIBYTE
_POOL_RECORDS: Final = 65_536
_PERCENTILES: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p99.9_ms": 0.999}


@app.command()
def produce(
    topic: Topic,
    records: Records = 100_000,
    size: Size = 100,
    throughput: Annotated[
        int, typer.Option(help="Maximum records per second; -1 for no limit.")
    ] = -1,
    setting: Settings = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Send records as fast as possible and print throughput and latencies."""
    from headwater.client import Producer
    from headwater.client.producer.producer_settings import ProducerSettings

    payloads = _payloads(size)
    latencies = array("d")
    failures: list[BaseException] = []
    given = pairs(setting or [], "--setting")
    settings = console_settings(ProducerSettings, bootstrap, command_config, given)
    check_broker(bootstrap, command_config)
    with exit_on_error(), Producer(settings) as producer:
        producer.partitions_for(topic)
        began = time.perf_counter()
        with _progress("sent", records) as advance:
            for number in range(records):
                at = time.perf_counter()
                if throughput > 0 and at - began < number / throughput:
                    time.sleep(number / throughput - (at - began))
                    at = time.perf_counter()
                producer.send(topic, next(payloads)).add_done_callback(
                    _Timer(at, latencies, failures)
                )
                if number % 1_000 == 0:
                    advance(number)
            producer.flush()
        row = _figures(records, records * size, time.perf_counter() - began, latencies)
        if failures:
            typer.echo(f"headwater: {len(failures)} failed; first: {failures[0]}", err=True)
            raise typer.Exit(1)
    show([row], as_json=as_json, columns=list(row))


@app.command()
def consume(
    topic: Topic,
    records: Records = 100_000,
    table: Annotated[bool, typer.Option("--table", help="Consume as Arrow tables.")] = False,
    timeout: Annotated[
        float, typer.Option(help="Exit if no record arrives for this many seconds.")
    ] = 10.0,
    setting: Settings = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Consume records from the beginning as fast as possible and print the throughput.

    Ends after --records, or at the end that the topic had when the command started.
    """
    from headwater.client import Consumer, TopicPartition
    from headwater.client.consumer.consumer_settings import ConsumerSettings

    given: dict[str, object] = {
        "auto.offset.reset": "earliest",
        **pairs(setting or [], "--setting"),
    }
    settings = console_settings(ConsumerSettings, bootstrap, command_config, given)
    count = size_bytes = 0
    is_read = False
    wait = min(timeout, _IDLE_POLL_S)
    with admin_of(bootstrap, command_config) as admin:
        # The consumer would create a missing topic and wait for records.
        check_partitions(admin, [TopicPartition(topic, 0)])
    with exit_on_error(), Consumer(settings) as consumer:
        places = [TopicPartition(topic, each) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        began = ended = time.perf_counter()
        with _progress("read", records) as advance:
            while count < records:
                wanted = records - count
                if table:
                    found = consumer.poll_table(wait).slice(0, wanted)
                    got, more_bytes = found.num_rows, found.column("value").nbytes
                else:
                    polled = consumer.poll(wait)[:wanted]
                    got = len(polled)
                    more_bytes = sum(len(record.value or b"") for record in polled)
                if not got:
                    is_read = all(consumer.position(each) >= ends[each] for each in places)
                    if is_read or time.perf_counter() - ended > timeout:
                        break
                    continue
                # A final poll that finds nothing does not count.
                ended = time.perf_counter()
                count += got
                size_bytes += more_bytes
                advance(count)
        row = _figures(count, size_bytes, ended - began, ())
    if count < records:
        why = f"{topic} has no more" if is_read else f"no more within {timeout:g} s"
        line = f"headwater: received {count} of {records} records; {why}"
        typer.echo(line, err=True)
    show([row], as_json=as_json, columns=list(row))


@app.command("end-to-end")
def end_to_end(
    topic: Topic,
    records: Records = 1_000,
    size: Size = 100,
    setting: Settings = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Send one record at a time, wait until it is consumed, and print the latencies."""
    from headwater.client import Consumer, Producer, TopicPartition
    from headwater.client.consumer.consumer_settings import ConsumerSettings
    from headwater.client.producer.producer_settings import ProducerSettings

    payloads = _payloads(size)
    latencies = array("d")
    given: dict[str, object] = {"linger.ms": 0, **pairs(setting or [], "--setting")}
    sending = console_settings(ProducerSettings, bootstrap, command_config, given)
    reading = console_settings(ConsumerSettings, bootstrap, command_config, given)
    check_broker(bootstrap, command_config)
    with (
        exit_on_error(),
        Producer(sending) as producer,
        Consumer(reading) as consumer,
    ):
        places = [TopicPartition(topic, each) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        consumer.seek_to_end()
        for place in places:
            consumer.position(place)
        began = time.perf_counter()
        with _progress("sent and read", records) as advance:
            for number in range(records):
                at = time.perf_counter()
                producer.send(topic, next(payloads))
                if not consumer.poll(30):
                    typer.echo("headwater: a record was not consumed within 30 s", err=True)
                    raise typer.Exit(1)
                latencies.append((time.perf_counter() - at) * 1000)
                advance(number)
        row = _figures(records, records * size, time.perf_counter() - began, latencies)
    show([row], as_json=as_json, columns=list(row))


class _Timer:
    """A callback that records the latency of one send."""

    __slots__ = ("_at", "_failures", "_latencies")

    def __init__(self, at: float, latencies: "array[float]", failures: list[BaseException]) -> None:
        self._at = at
        self._latencies = latencies
        self._failures = failures

    def __call__(self, future: "RecordFuture") -> None:
        self._latencies.append((time.perf_counter() - self._at) * 1000)
        error = future.exception()
        if error is not None:
            self._failures.append(error)


def _payloads(size_bytes: int) -> Iterator[bytes]:
    """Random letters, the same in every run; zeros would compress too well."""
    letters = ascii_uppercase.encode()
    table = bytes(letters[byte % len(letters)] for byte in range(256))
    count = min(max(_POOL_BYTES // max(size_bytes, 1), 1), _POOL_RECORDS)
    pool = Random(0).randbytes(count * size_bytes).translate(table)
    return cycle([pool[at * size_bytes : (at + 1) * size_bytes] for at in range(count)])


def _figures(
    count: int, size_bytes: int, seconds: float, latencies_ms: Sequence[float]
) -> dict[str, object]:
    row: dict[str, object] = {
        "records": count,
        "seconds": round(seconds, 3),
        "records_s": round(count / seconds) if seconds else 0,
        "mib_s": round(size_bytes / _MEBIBYTE / seconds, 2) if seconds else 0.0,
    }
    if latencies_ms:
        ordered = sorted(latencies_ms)
        row["avg_ms"] = round(sum(ordered) / len(ordered), 2)
        row["max_ms"] = round(ordered[-1], 2)
        for name, share in _PERCENTILES.items():
            row[name] = round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2)
    return row


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error if it is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.update(task, completed=count)

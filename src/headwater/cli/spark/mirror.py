"""`headwater mirror`: copy topics of one cluster to another with Spark.

A run keeps no state on this machine: the target cluster stores its positions.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.terminal import (
    AsJson,
    admin_with,
    exit_on_error,
    is_terminal,
    pairs,
    settings_in,
)

if TYPE_CHECKING:
    from headwater.mirror.mirror import Event, MirrorCounts, OnEvent
    from headwater.mirror.mirror_options import MirrorOptions
    from headwater.process.stop_signals import StopSignals


def mirror(
    source: Annotated[
        str, typer.Argument(help="Brokers of the source cluster, comma-separated host:port.")
    ],
    target: Annotated[
        str, typer.Argument(help="Brokers of the target cluster, comma-separated host:port.")
    ],
    topics: Annotated[
        str, typer.Option("--topics", "-t", help="Topics to copy, a regular expression.")
    ],
    exclude: Annotated[
        str | None, typer.Option(help="Topics to leave out, a regular expression. Default: none.")
    ] = None,
    alias: Annotated[
        str,
        typer.Option(help="Alias of the source cluster; copied topics are named ALIAS.TOPIC."),
    ] = "source",
    identity: Annotated[
        bool, typer.Option("--identity", help="Keep the topic names of the source.")
    ] = False,
    exactly_once: Annotated[
        bool,
        typer.Option("--exactly-once", help="Copy in transactions, without duplicates."),
    ] = False,
    groups: Annotated[
        str, typer.Option(help="Groups whose offsets to translate, a regular expression.")
    ] = ".*",
    no_groups: Annotated[
        bool, typer.Option("--no-groups", help="Translate no group offsets.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Copy the records that exist now, then exit.")
    ] = False,
    refresh: Annotated[
        float,
        typer.Option(help="Seconds between refreshes of topics, topic configs and groups."),
    ] = 5.0,
    replication_factor: Annotated[
        int,
        typer.Option(help="Replication factor of created topics; -1: the target's default."),
    ] = -1,
    source_config: Annotated[
        Path | None,
        typer.Option(
            envvar="HEADWATER_SOURCE_CONFIG",
            exists=True,
            dir_okay=False,
            help="Properties file with client settings for the source, such as TLS and SASL.",
        ),
    ] = None,
    target_config: Annotated[
        Path | None,
        typer.Option(
            envvar="HEADWATER_TARGET_CONFIG",
            exists=True,
            dir_okay=False,
            help="Properties file with client settings for the target.",
        ),
    ] = None,
    source_setting: Annotated[
        list[str] | None, typer.Option(help="Consumer setting, name=value; repeatable.")
    ] = None,
    target_setting: Annotated[
        list[str] | None, typer.Option(help="Producer setting, name=value; repeatable.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark master URL; default: all cores of this machine.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy topics to another cluster, in whole batches, until Ctrl-C."""
    with exit_on_error():
        from headwater.mirror.mirror_options import mirror_options

        options = mirror_options(
            source,
            target,
            topics=topics,
            exclude=exclude,
            alias=alias,
            is_identity=identity,
            delivery="exactly-once" if exactly_once else "at-least-once",
            groups=None if no_groups else groups,
            replication_factor=replication_factor,
            refresh_s=refresh,
            source_settings=pairs(source_setting or [], "--source-setting"),
            target_settings=pairs(target_setting or [], "--target-setting"),
            source_file=settings_in(source_config),
            target_file=settings_in(target_config),
        )
        _expect_clusters(options, are_two=identity)

        from headwater.process.stop_signals import StopSignals, aside

        report = _as_json if as_json else _Terminal().show
        with StopSignals() as signals:
            counts = aside(lambda: _run(options, master, once, report, signals))
    report(_end(counts))


def _run(
    options: "MirrorOptions",
    master: str | None,
    once: bool,
    on_event: "OnEvent",
    signals: "StopSignals",
) -> "MirrorCounts":
    from headwater.mirror.mirror import Mirror
    from headwater.mirror.spark_tasks import SparkTasks
    from headwater.spark import session
    from headwater.spark.java_process import LOG_LEVEL

    spark = session(master, {LOG_LEVEL: "ERROR"}, app_name="headwater mirror")
    try:
        running = Mirror(options, SparkTasks(spark), on_event=on_event)
        signals.pass_to(running.stop)
        return running.counts if signals.is_stop_requested else running.run(once=once)
    finally:
        spark.stop()


def _expect_clusters(options: "MirrorOptions", *, are_two: bool) -> None:
    """Fail before Spark starts if a broker does not answer or both clusters are one."""
    with admin_with(options.source_admin()) as admin:
        origin = admin.describe_cluster().cluster_id
    with admin_with(options.target_admin()) as admin:
        is_same = admin.describe_cluster().cluster_id == origin
    if is_same and are_two:
        line = "source and target are the same cluster: topics would be copied onto themselves"
        typer.echo(f"headwater: {line}", err=True)
        raise typer.Exit(1)


def _as_json(event: "Event") -> None:
    print(json.dumps(event, default=str), flush=True)


def _end(counts: "MirrorCounts") -> "Event":
    return {
        "event": "end",
        "records": counts.records,
        "bytes": counts.size_bytes,
        "lag": counts.lag,
        "lost": counts.lost,
        "groups": counts.groups,
        "rounds": counts.rounds,
    }


class _Terminal:
    """Print events as lines; progress updates one line in place."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: tuple[float, int, int] | None = None
        self._has_line = False

    def show(self, event: "Event") -> None:
        match event["event"]:
            case "progress":
                self._progress(event)
            case "topic":
                self._print(f"copying {event['topic']} to {event['copy']}")
            case "no topic":
                self._print("no topic matches yet")
            case "settings":
                self._print(f"changed configs of {event['copy']}: {event['changes']}")
            case "group":
                self._print(f"group {event['group']} moved to {event['offsets']}")
            case "left out":
                self._print(f"{event['topic']} is not copied: it {event['reason']}")
            case "lost":
                self._print(f"{event['partition']}: {event['offsets']} offsets were deleted before")
            case "failure":
                self._print(f"attempt {event['attempt']} failed, retrying: {event['reason']}")
            case _:
                self._print(f"copied {event['records']} records, {event['bytes']} bytes")

    def _progress(self, event: "Event") -> None:
        now_s, records, size_bytes = self._clock(), event["records"], event["bytes"]
        assert isinstance(records, int)
        assert isinstance(size_bytes, int)
        rate = ""
        if self._last is not None and now_s > self._last[0]:
            seconds = now_s - self._last[0]
            rate = (
                f", {(records - self._last[1]) / seconds:,.0f} records/s, "
                f"{(size_bytes - self._last[2]) / seconds / 2**20:,.1f} MiB/s"
            )
        self._last = (now_s, records, size_bytes)
        line = f"{records:,} records copied{rate}, lag {event['lag']:,}"
        if is_terminal(sys.stdout):
            print(f"\r\x1b[K{line}", end="", flush=True)
            self._has_line = True
        else:
            print(line, flush=True)

    def _print(self, line: str) -> None:
        if self._has_line:
            print()
            self._has_line = False
        print(line, flush=True)

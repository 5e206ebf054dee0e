"""`headwater mirror`: copy topics of one cluster to another with Spark.

A run keeps no state on this machine: the target cluster stores how far the mirror is.
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
    failing_clearly,
    is_terminal,
    pairs,
    settings_in,
)

if TYPE_CHECKING:
    from headwater.mirror.mirror import Event, MirrorCounts, Tell
    from headwater.mirror.mirror_options import MirrorOptions
    from headwater.process.stop_signals import StopSignals


def mirror(
    source: Annotated[str, typer.Argument(help="Brokers to copy from, as host:port.")],
    target: Annotated[str, typer.Argument(help="Brokers to copy to, as host:port.")],
    topics: Annotated[
        str, typer.Option("--topics", "-t", help="Which topics, as a regular expression.")
    ],
    exclude: Annotated[
        str | None, typer.Option(help="Topics to leave out, as a regular expression.")
    ] = None,
    alias: Annotated[
        str, typer.Option(help="What the source is called: copies begin with this and a dot.")
    ] = "source",
    identity: Annotated[
        bool, typer.Option("--identity", help="Copies have the same names as the originals.")
    ] = False,
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="Copy in transactions; nothing comes twice.")
    ] = False,
    groups: Annotated[str, typer.Option(help="Whose offsets to translate.")] = ".*",
    no_groups: Annotated[
        bool, typer.Option("--no-groups", help="Leave groups where they are.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Copy what is there now, and end.")] = False,
    refresh: Annotated[
        float, typer.Option(help="Seconds between looks at topics, settings and groups.")
    ] = 5.0,
    replication_factor: Annotated[
        int, typer.Option(help="Of topics that are made; -1 for the target's default.")
    ] = -1,
    source_config: Annotated[
        Path | None,
        typer.Option(
            envvar="HEADWATER_SOURCE_CONFIG",
            exists=True,
            dir_okay=False,
            help="A properties file of client settings for the source, such as those of a login.",
        ),
    ] = None,
    target_config: Annotated[
        Path | None,
        typer.Option(
            envvar="HEADWATER_TARGET_CONFIG",
            exists=True,
            dir_okay=False,
            help="A properties file of client settings for the target.",
        ),
    ] = None,
    source_setting: Annotated[
        list[str] | None, typer.Option(help="A setting of the consumer, as name=value.")
    ] = None,
    target_setting: Annotated[
        list[str] | None, typer.Option(help="A setting of the producer, as name=value.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master; all cores of this machine if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy topics to another cluster, whole batches at a time, until Ctrl-C."""
    with failing_clearly():
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

        teller = _as_json if as_json else _Terminal().tell
        with StopSignals() as signals:
            counts = aside(lambda: _run(options, master, once, teller, signals))
    teller(_end(counts))


def _run(
    options: "MirrorOptions", master: str | None, once: bool, tell: "Tell", signals: "StopSignals"
) -> "MirrorCounts":
    from headwater.mirror.mirror import Mirror
    from headwater.mirror.spark_tasks import SparkTasks
    from headwater.spark import session
    from headwater.spark.java_process import LOG_LEVEL

    spark = session(master, {LOG_LEVEL: "ERROR"}, app_name="headwater mirror")
    try:
        running = Mirror(options, SparkTasks(spark), tell=tell)
        signals.pass_to(running.stop)
        return running.counts if signals.is_asked else running.run(once=once)
    finally:
        spark.stop()


def _expect_clusters(options: "MirrorOptions", *, are_two: bool) -> None:
    """End clearly, before Spark is started, where a broker does not answer or both are one."""
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
    """Events for people: a line each, but progress, which stays on its line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: tuple[float, int, int] | None = None
        self._has_line = False

    def tell(self, event: "Event") -> None:
        match event["event"]:
            case "progress":
                self._progress(event)
            case "topic":
                self._say(f"{event['topic']} is copied to {event['copy']}")
            case "no topic":
                self._say("no topic matches so far")
            case "settings":
                self._say(f"settings of {event['copy']} changed: {event['changes']}")
            case "group":
                self._say(f"group {event['group']} moved to {event['offsets']}")
            case "left out":
                self._say(f"{event['topic']} is left out: it {event['reason']}")
            case "lost":
                self._say(f"{event['partition']}: {event['offsets']} offsets were gone before")
            case "failure":
                self._say(f"attempt {event['attempt']} failed, trying again: {event['reason']}")
            case _:
                self._say(f"copied {event['records']} records, {event['bytes']} bytes")

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
        line = f"{records:,} records copied{rate}, {event['lag']:,} to go"
        if is_terminal(sys.stdout):
            print(f"\r\x1b[K{line}", end="", flush=True)
            self._has_line = True
        else:
            print(line, flush=True)

    def _say(self, line: str) -> None:
        if self._has_line:
            print()
            self._has_line = False
        print(line, flush=True)

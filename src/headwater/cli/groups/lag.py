"""`headwater groups lag`: lag in records and in time, with exit codes for alerts.

The lag in time is exact: the timestamp of the next record is fetched. The metric
`headwater_group_lag_seconds` is an estimate by the time of the append.
"""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.completion import group_names
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    client_settings,
    is_terminal,
    show,
)
from headwater.cli.times import short_duration, short_duration_ms

if TYPE_CHECKING:
    from headwater.cli.groups.group_lags import ExactLag

ABOVE_LIMIT: Final = 3
# Erase the screen and go to its first line.
_CLEAR: Final = "\x1b[2J\x1b[H"
# Only the first record is needed.
_SMALL_FETCHES: Final = {"max.partition.fetch.bytes": "65536", "client.id": "headwater-cli"}
_COLUMNS: Final = ("group", "topic", "partition", "offset", "end", "lag", "time")


def lag(
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            help="Group ids; all groups if none is given.",
            show_default=False,
            autocompletion=group_names,
        ),
    ] = None,
    max_records: Annotated[
        int | None,
        typer.Option(
            "--max-records",
            min=0,
            help="Exit with 3 if a partition has a larger lag in records. Default: no limit.",
            show_default=False,
        ),
    ] = None,
    max_time: Annotated[
        str | None,
        typer.Option(
            "--max-time",
            help="Exit with 3 if the next record of a partition is older, such as 5m or PT5M. "
            "Default: no limit.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Repeat until Ctrl-C, or until a limit is exceeded."),
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds between two looks of --watch.")
    ] = 2.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show how far groups are behind, in records and in time.

    Exit codes: 0 within the limits, 3 above a limit, 1 if the lag could not be measured.
    """
    from headwater.cli.groups.group_lags import exact_lags
    from headwater.client.consumer.consumer_settings import ConsumerSettings
    from headwater.client.consumer.lag_reader import LagReader
    from headwater.client.settings import supported_settings

    max_time_ms = None if max_time is None else short_duration_ms(max_time)
    settings = supported_settings(ConsumerSettings, client_settings(bootstrap, command_config))
    with (
        admin_of(bootstrap, command_config) as admin,
        LagReader({**settings, **_SMALL_FETCHES}) as reader,
    ):
        if groups:
            # An unknown group is an error, not a group without lag.
            admin.describe_groups(groups)
        while True:
            names = groups or [each.group_id for each in admin.list_groups()]
            now_ms = time.time_ns() // 1_000_000
            lags = exact_lags(admin, reader, names, now_ms=now_ms)
            above = [each for each in lags if each.is_above(max_records, max_time_ms)]
            if watch and not as_json and is_terminal(sys.stdout):
                typer.echo(_CLEAR, nl=False)
            show([_row(each) for each in lags], as_json=as_json, columns=_COLUMNS)
            if above or not watch:
                break
            time.sleep(interval)
    for each in above:
        typer.echo(f"headwater: {_alert(each)}", err=True)
    raise typer.Exit(ABOVE_LIMIT if above else 0)


def _row(lag: "ExactLag") -> dict[str, object]:
    return {
        "group": lag.group,
        "topic": lag.place.topic,
        "partition": lag.place.partition,
        "offset": lag.offset,
        "end": lag.end,
        "lag": lag.records,
        "time": None if lag.time_ms is None else short_duration(lag.time_ms),
        "lag_ms": lag.time_ms,
        "lost": lag.lost,
    }


def _alert(lag: "ExactLag") -> str:
    assert lag.time_ms is not None
    return (
        f"group {lag.group} is {lag.records:,} records and {short_duration(lag.time_ms)} behind"
        f" in {lag.place}"
    )

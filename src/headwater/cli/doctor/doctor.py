"""`headwater doctor`: find problems, say why they matter and what fixes them."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from headwater.cli.doctor.diagnosis import Diagnosis, Severity, Unchecked
from headwater.cli.terminal import AsJson, CommandConfig, admin_of, client_settings, show, waiting

_FOUND: Final = 1
_COULD_NOT_CHECK: Final = 2
_SUBJECTS_SHOWN: Final = 3
# Only the next record of each group is needed.
_SMALL_FETCHES: Final = {"max.partition.fetch.bytes": "65536", "client.id": "headwater-cli"}


def doctor(
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            help="Log directory on this machine, existing or planned; repeatable. Default: check "
            "the machine without log directories.",
            show_default=False,
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            help="Check the cluster of these brokers. Default: check no cluster.",
            show_default=False,
        ),
    ] = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Check this machine and a cluster for known problems.

    With --bootstrap only, the cluster is checked; without it, this machine; with --data, both.
    Exit codes: 0 healthy, 1 problems found, 2 something could not be checked. Notes do not count.
    """
    findings: list[Diagnosis] = []
    unchecked: list[Unchecked] = []
    is_cluster_reached = True
    if data or bootstrap is None:
        findings += _of_machine(data or [])
    if bootstrap is not None:
        try:
            found, unchecked = _of_cluster(bootstrap, command_config)
            findings += found
        except typer.Exit:
            # The reason is printed already; the machine's problems may be the cause.
            is_cluster_reached = False
    if findings or is_cluster_reached:
        (_show_json if as_json else _show_table)(findings, unchecked)
    if not is_cluster_reached:
        raise typer.Exit(_COULD_NOT_CHECK)
    is_sick = any(each.severity is not Severity.NOTE for each in findings)
    raise typer.Exit(_FOUND if is_sick else _COULD_NOT_CHECK if unchecked else 0)


def _of_machine(directories: Sequence[Path]) -> list[Diagnosis]:
    from headwater.cli.doctor.machine_checks import machine_findings
    from headwater.cli.doctor.machine_facts import machine_facts

    return machine_findings(machine_facts(directories))


def _of_cluster(
    bootstrap: str, command_config: Path | None
) -> tuple[list[Diagnosis], list[Unchecked]]:
    from headwater.cli.doctor.cluster_checks import cluster_findings
    from headwater.cli.doctor.cluster_facts import cluster_facts
    from headwater.client.consumer.consumer_settings import ConsumerSettings
    from headwater.client.consumer.lag_reader import LagReader
    from headwater.client.settings import supported_settings

    settings = supported_settings(ConsumerSettings, client_settings(bootstrap, command_config))
    with (
        admin_of(bootstrap, command_config) as admin,
        LagReader({**settings, **_SMALL_FETCHES}) as reader,
        waiting("examining the cluster"),
    ):
        facts, unchecked = cluster_facts(admin, reader, now_ms=time.time_ns() // 1_000_000)
    return cluster_findings(facts), unchecked


def _show_json(findings: Sequence[Diagnosis], unchecked: Sequence[Unchecked]) -> None:
    for each in findings:
        typer.echo(json.dumps(asdict(each)))
    for missing in unchecked:
        typer.echo(
            json.dumps({"check": missing.check, "severity": "unchecked", "problem": missing.reason})
        )


def _show_table(findings: Sequence[Diagnosis], unchecked: Sequence[Unchecked]) -> None:
    if findings:
        rows = [
            {
                "severity": each.severity.value,
                "check": each.check,
                "subject": _some(each.subjects),
                "problem": each.problem,
            }
            for each in findings
        ]
        show(rows, as_json=False, columns=["severity", "check", "subject", "problem"])
        for each in findings:
            typer.echo(f"\n{each.check}: {_some(each.subjects)}")
            typer.echo(f"  Why: {each.why}")
            typer.echo(f"  Fix: {each.fix}")
    elif not unchecked:
        typer.echo("No problems found.")
    for missing in unchecked:
        typer.echo(f"headwater: could not check {missing.check}: {missing.reason}", err=True)


def _some(subjects: Sequence[str]) -> str:
    shown = ", ".join(subjects[:_SUBJECTS_SHOWN])
    more = len(subjects) - _SUBJECTS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown

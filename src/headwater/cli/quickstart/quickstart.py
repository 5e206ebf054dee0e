"""`headwater quickstart`: broker, topic, records, console, pipeline, in steps."""

import os
import shlex
import signal
import sys
import textwrap
from importlib.util import find_spec
from typing import Annotated, Final

import typer

from headwater.cli.quickstart.tour import (
    FOREIGN_SETTINGS,
    Serve,
    ShellState,
    Step,
    shown_lines,
    tour,
)
from headwater.cli.quickstart.tour_processes import CommandFailed, TourProcesses
from headwater.cli.terminal import is_terminal, print_error

INTERRUPTED: Final = 130
TERMINATED: Final = 143
WIDTH: Final = 80

_INTRODUCTION: Final = (
    "A tour of Headwater in {count} steps. Each shows commands and runs them, with data in a\n"
    "temporary folder and on free ports. At the end everything is stopped and removed."
)
_END: Final = """\
The tour has ended; its servers are stopped and its folder is removed. To go on:

  headwater start            a broker on 127.0.0.1:9092 with its data in ./data
  headwater doctor           check this machine and a cluster
  headwater --help           all commands"""


def quickstart(
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Run all steps without asking before each.")
    ] = False,
    pipeline: Annotated[
        bool,
        typer.Option(
            "--pipeline/--no-pipeline", help="Run the pipeline, if PySpark and Java are installed."
        ),
    ] = True,
) -> None:
    """Take a tour: broker, topic, records, console and pipeline.

    Everything runs in a temporary folder and on free ports and is removed at the end.
    """
    if not yes and not is_terminal(sys.stdin):
        raise typer.BadParameter(
            "the tour asks before each step and standard input is not a terminal: give --yes"
        )
    signal.signal(signal.SIGTERM, _exit_terminated)
    try:
        with TourProcesses(os.environ) as processes:
            is_complete = _take(processes, asks=not yes, with_pipeline=pipeline)
    except CommandFailed as error:
        print_error(f"{error}\nheadwater: the tour ends here; headwater doctor checks the machine")
        raise typer.Exit(1) from error
    except OSError as error:
        print_error(f"the tour cannot use its temporary folder: {error}; TMPDIR selects another")
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        typer.echo("\nheadwater: tour ended; its servers are stopped and its folder is removed")
        raise typer.Exit(INTERRUPTED) from None
    typer.echo(f"\n{_END}" if is_complete else "\nheadwater: tour ended")


def _take(processes: TourProcesses, *, asks: bool, with_pipeline: bool) -> bool:
    """Go through the steps; return whether the last one was reached."""
    steps = tour(
        shlex.quote(str(processes.folder)),
        missing_for_console=_missing_for_console(),
        missing_for_pipeline=_missing_for_pipeline() if with_pipeline else "--no-pipeline",
        foreign_settings=[name for name in FOREIGN_SETTINGS if name in os.environ],
    )
    typer.echo(_INTRODUCTION.format(count=len(steps)))
    for number, step in enumerate(steps, 1):
        typer.echo()
        typer.secho(f"{number}/{len(steps)} {step.title}", bold=True)
        typer.echo(textwrap.fill(step.text, WIDTH))
        typer.echo()
        if step.missing is not None:
            _show(step)
            typer.echo(f"\nThis step is left out: {step.missing}")
            continue
        if asks:
            _show(step)
            if not _is_wanted():
                return False
        _run(step, processes, is_shown=asks)
        if step.outcome:
            typer.echo(f"\n{step.outcome}")
    if asks:
        _answer("Press Enter to stop everything")
    return True


def _show(step: Step) -> None:
    for command in step.commands:
        for line in shown_lines(command):
            typer.secho(f"  {line}", fg=typer.colors.CYAN)


def _is_wanted() -> bool:
    return _answer("Press Enter to run, q to end the tour") not in ("q", "quit", "n", "no")


def _answer(question: str) -> str:
    """Read a line; the end of the input is a q."""
    # Not typer's prompt, which turns Ctrl-C into an error of its own.
    try:
        return input(f"\n{question} ").strip().lower()
    except EOFError:
        return "q"


def _run(step: Step, processes: TourProcesses, *, is_shown: bool) -> None:
    for command in step.commands:
        if not is_shown or len(step.commands) > 1:
            for line in shown_lines(command):
                typer.secho(line, fg=typer.colors.CYAN)
        match command:
            case ShellState():
                # Applied to all commands of the tour when it started.
                continue
            case Serve():
                line, address = processes.serve(command)
                typer.echo(line)
                if command.variable is not None:
                    processes.set(command.variable, address)
                    typer.secho(f"$ export {command.variable}={address}", fg=typer.colors.CYAN)
            case _:
                sys.stdout.flush()
                processes.run(command)


def _missing_for_console() -> str | None:
    if all(map(find_spec, ("starlette", "uvicorn"))):
        return None
    return "the console needs pip install 'headwater[web]'"


def _missing_for_pipeline() -> str | None:
    from headwater.process.java import NoJava, find_java

    if not all(map(find_spec, ("pyspark", "yaml", "numpy", "pandas"))):
        return "pipelines need pip install 'headwater[spark]'"
    try:
        find_java(os.environ)
    except NoJava as error:
        return str(error)
    return None


def _exit_terminated(*_: object) -> None:
    # Unwinds the stack, so that the tour cleans up.
    sys.exit(TERMINATED)

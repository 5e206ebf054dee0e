"""`headwater pipeline submit`: start a driver that outlives this command.

Where the driver runs depends on the master. YARN and Kubernetes run it (`spark-submit` in cluster
deploy mode). A standalone master does not run Python drivers, so the driver is a detached process
of this machine, as it is for a local master. Either way the run is published: `list`, `status` and
`stop` with `--bootstrap` work from any machine.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.spark.pipeline_options import (
    Brokers,
    File,
    Folder,
    Master,
    checked_pipeline,
    printed_problems,
    runs_folder,
)
from headwater.cli.terminal import AsJson, CommandConfig, exit_on_error, waiting

if TYPE_CHECKING:
    from headwater.pipelines.spec.pipeline_spec import PipelineSpec

_LOOK_EVERY_S: Final = 0.2
_LAST_LINES: Final = 3
_KUBERNETES: Final = "k8s://"
_CLUSTERED: Final = (_KUBERNETES, "yarn")
_IMAGE: Final = "spark.kubernetes.container.image"
_UPLOADS: Final = "spark.kubernetes.file.upload.path"


def submit(
    file: File,
    master: Master = None,
    here: Annotated[
        bool,
        typer.Option("--here", help="Run the driver on this machine on YARN and Kubernetes, too."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command that would be run, and exit.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until a driver on this machine runs.")
    ] = 300.0,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    runs: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Start a pipeline in the background, on the cluster if possible.

    YARN and Kubernetes do. Standalone masters do not; the driver then runs on this machine.
    """
    with exit_on_error(), printed_problems(as_json=as_json):
        spec = checked_pipeline(file, bootstrap, command_config, master, offline=False)
        refuse_unpublished(spec)
        folder = runs_folder(runs)
        is_here = here or not (spec.master or "local").startswith(_CLUSTERED)
        command = detached_command(spec, folder) if is_here else cluster_command(spec)
        if dry_run:
            typer.echo(
                json.dumps({"command": command}) if as_json else subprocess.list2cmdline(command)
            )
            return
        if is_here:
            report = _start_here(spec, command, folder, timeout)
        else:
            report = _start_there(spec, command)
    typer.echo(json.dumps(report) if as_json else _summary(report))


def refuse_unpublished(spec: "PipelineSpec") -> None:
    """Require bootstrap servers: the state of a submitted run is in a topic."""
    from headwater.spark.exceptions import InvalidOption

    if spec.bootstrap is None:
        raise InvalidOption("the state of a submitted run is stored in a topic: set bootstrap")


def detached_command(spec: "PipelineSpec", folder: Path) -> list[str]:
    """Return the command of a driver on this machine."""
    return [sys.executable, "-m", "headwater", *run_words(spec, spec.file), "--runs", str(folder)]


def cluster_command(spec: "PipelineSpec") -> list[str]:
    """Return `spark-submit` in cluster mode; files go to the driver's working folder."""
    from headwater.cli.spark import submitted_driver
    from headwater.spark.class_archive import jars_folder
    from headwater.spark.exceptions import InvalidOption
    from headwater.spark.locations import unreachable_reason

    assert spec.master is not None, "a cluster"
    if spec.master.startswith(_KUBERNETES):
        for name, what in (
            (_IMAGE, "the image of driver and executors"),
            (_UPLOADS, "a location that driver and this machine reach, for the pipeline's files"),
        ):
            if name not in spec.conf:
                raise InvalidOption(f"{spec.master} needs {name} in session.conf: {what}")
    if reason := unreachable_reason(spec.checkpoint, spec.master):
        raise InvalidOption(f"checkpoint: {reason}")
    files = [spec.file, *([] if spec.settings is None else [spec.settings])]
    files += sorted({each.python.file for each in spec.steps if each.python and each.python.file})
    words = [str(jars_folder(os.environ).parent / "bin" / "spark-submit")]
    words += [
        "--master",
        spec.master,
        "--deploy-mode",
        "cluster",
        "--name",
        f"headwater-{spec.name}",
    ]
    words += ["--files", ",".join(map(str, files))]
    for name, value in sorted(spec.conf.items()):
        words += ["--conf", f"{name}={value}"]
    # The command ends when the driver is accepted.
    words += ["--conf", "spark.yarn.submit.waitAppCompletion=false"]
    words += ["--conf", "spark.kubernetes.submission.waitAppCompletion=false"]
    return [*words, str(submitted_driver.__file__), *run_words(spec, Path(spec.file.name))]


def run_words(spec: "PipelineSpec", file: Path) -> list[str]:
    """Return the driver's arguments; its files are beside the pipeline file."""
    words = ["pipeline", "run", str(file), "--publish"]
    if spec.master is not None:
        words += ["--master", spec.master]
    if spec.bootstrap is not None:
        words += ["--bootstrap", spec.bootstrap]
    if spec.settings is not None:
        is_beside = not file.is_absolute()
        words += ["--command-config", spec.settings.name if is_beside else str(spec.settings)]
    return words


def _start_here(
    spec: "PipelineSpec", command: Sequence[str], folder: Path, timeout_s: float
) -> dict[str, object]:
    """Start the driver as a detached process, and wait until its queries run."""
    from headwater.pipelines.run.run_files import AlreadyRunning, NoSuchRun, is_running, report
    from headwater.pipelines.run.spark_errors import SparkFailed

    if is_running(folder, spec.name):
        raise AlreadyRunning(
            f"the pipeline {spec.name} runs already: see headwater pipeline status"
        )
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{spec.name}.log"
    with log.open("wb") as output:
        driver = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    until_s = time.monotonic() + timeout_s
    state = "starting"
    with waiting(f"Starting a driver for {spec.name}"):
        while state == "starting":
            if driver.poll() not in (None, 0):
                lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
                raise SparkFailed(f"the driver has failed: {' '.join(lines)} (log: {log})")
            if time.monotonic() > until_s:
                raise SparkFailed(
                    f"the driver has not started its queries after {timeout_s:g} s "
                    f"and goes on (pid {driver.pid}, log: {log})"
                )
            threading.Event().wait(_LOOK_EVERY_S)
            try:
                found = report(folder, spec.name)
                state = found.state if found.pid == driver.pid else "starting"
            except NoSuchRun:
                pass
    return {
        "pipeline": spec.name,
        "state": state,
        "driver": "this machine",
        "host": os.uname().nodename,
        "pid": driver.pid,
        "log": str(log),
        "bootstrap": spec.bootstrap,
    }


def _start_there(spec: "PipelineSpec", command: Sequence[str]) -> dict[str, object]:
    from headwater.pipelines.run.failure_reason import reason_of
    from headwater.pipelines.run.spark_errors import SparkFailed

    with waiting(f"Submitting {spec.name} to {spec.master}"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SparkFailed(f"spark-submit has failed: {reason_of(Exception(done.stderr))}")
    return {
        "pipeline": spec.name,
        "state": "submitted",
        "driver": spec.master,
        "bootstrap": spec.bootstrap,
    }


def _summary(report: dict[str, object]) -> str:
    where = (
        f"pid {report['pid']} on {report['host']}" if "pid" in report else f"on {report['driver']}"
    )
    return (
        f"{report['pipeline']}: {report['state']}, {where}; "
        f"headwater pipeline status {report['pipeline']} --bootstrap {report['bootstrap']}"
    )

"""Choose the Python of Spark's workers, on the driver and on executors.

Spark runs one command everywhere: the driver's JVM plans a data source with it, and executors run
tasks with it. So the command must exist on all of these machines.

- On a local master it is a temporary script, which starts this process's Python.
- On a cluster it is the command `headwater-python` beside this process's Python (`main`). A virtual
  environment at the same path on all machines therefore needs no settings.
- With an environment that `headwater pipeline package` has packed it is `headwater-python`, a
  script of the unpacked archive for executors, and one in a temporary folder for the driver. Each
  is found through `PATH`, which is the executors' working folder for an archive.

Scripts and command remove the zip files of pyspark from `PYTHONPATH`, from which the import takes a
second. They start our daemon, since `spark.python.daemon.module` is only for tasks, and Spark's
planner always runs `pyspark.daemon`; and workers without a daemon by `early_worker`.

`PYSPARK_PYTHON` and `spark.pyspark.python` win over all of it.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.spark import early_worker, python_daemon
from headwater.spark.java_process import temporary_folder

SCRIPT: Final = "headwater-python"
ARCHIVE: Final = "headwater"
"""The folder into which executors unpack a packed environment: `spark.archives=FILE#headwater`."""

_EXECUTORS_PATH: Final = "spark.executorEnv.PATH"
_USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TASKS: Final = "PYSPARK_PYTHON"
_PLANNER: Final = "PYSPARK_DRIVER_PYTHON"

_WORKER: Final = """#!/bin/sh
# Removes pyspark's zip files from the path: they hold no bytecode, and take a second to import.
rest=
IFS=:
for part in $PYTHONPATH; do
    case $part in
        */pyspark.zip|*/py4j-*-src.zip) ;;
        *) rest=$rest${{rest:+:}}$part ;;
    esac
done
unset IFS
PYTHONPATH=$rest
export PYTHONPATH
case "$1 $2" in
    "-m pyspark.daemon") shift 2; set -- -m {daemon} "$@" ;;
    "-m pyspark."*) shift; set -- -m {early} "$@" ;;
esac
exec {python} "$@"
"""


def choose_worker_python(settings: Mapping[str, str], *, is_local: bool) -> dict[str, str]:
    """Set the environment of the JVM to be started; return settings to add.

    Spark's JVM reads these variables, and not its settings, when Python has started it: one for
    tasks, the other for the process that looks up which formats are installed.
    """
    named = settings.get("spark.pyspark.python")
    if named is not None:
        os.environ.setdefault(_TASKS, named)
    if _TASKS in os.environ:
        return {}
    script = worker_script()
    os.environ.setdefault(_PLANNER, str(script))
    if is_local:
        os.environ[_TASKS] = str(script)
    elif uses_archive(settings):
        os.environ[_TASKS] = SCRIPT
        os.environ["PATH"] = f"{script.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {_EXECUTORS_PATH: f"./{ARCHIVE}/bin:{settings.get(_EXECUTORS_PATH, _USUAL_PATH)}"}
    else:
        command = Path(sys.executable).with_name(SCRIPT)
        os.environ[_TASKS] = str(command) if command.exists() else sys.executable
    return {}


def uses_archive(settings: Mapping[str, str]) -> bool:
    """Whether executors unpack an environment of `headwater pipeline package`."""
    archives = settings.get("spark.archives", "").split(",")
    return any(each.strip().endswith(f"#{ARCHIVE}") for each in archives)


def worker_script() -> Path:
    """A script that starts this process's Python; removed when this process ends."""
    script = temporary_folder() / SCRIPT
    text = _WORKER.format(
        python=shlex.quote(sys.executable), daemon=python_daemon.MODULE, early=early_worker.MODULE
    )
    script.write_text(text)
    script.chmod(0o700)
    return script


def main() -> None:
    """The command `headwater-python`: run a worker of Spark with this Python."""
    arguments = sys.argv[1:]
    match arguments:
        case ["-m", "pyspark.daemon", *_]:
            arguments[1] = python_daemon.MODULE
        case ["-m", module, *_] if module.startswith("pyspark."):
            arguments.insert(1, early_worker.MODULE)
    python_daemon.use_installed_pyspark()
    os.execv(sys.executable, [sys.executable, *arguments])

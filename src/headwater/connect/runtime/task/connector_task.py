"""The process of a task, `python -m` with this module's name.

A worker writes the setup to standard input and reads reports from standard output; logs go to
standard error. SIGTERM ends the task after its current batch.
"""

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final

from headwater.common.exceptions import HeadwaterError
from headwater.connect.runtime.connector_config import read_connector_config
from headwater.connect.runtime.connector_plugins import PluginType
from headwater.connect.runtime.task.task_setup import FAILED, TaskReport, TaskSetup

TASK_FAILED: Final = 1
_TRACE_CHARS_MAX: Final = 65_536


def main() -> None:
    setup = TaskSetup.from_line(sys.stdin.readline())
    # Connectors may print; only reports belong on standard output.
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _log_to_standard_error(setup)
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)

    def report(told: TaskReport) -> None:
        reports.write(told.to_line() + "\n")

    try:
        _run(setup, report, stop)
    except Exception as error:  # noqa: BLE001, the top of a process
        report(TaskReport(FAILED, _trace(error)[:_TRACE_CHARS_MAX]))
        logging.getLogger(__name__).error("Task failed: %s", error)
        sys.exit(TASK_FAILED)


def _run(setup: TaskSetup, report: Callable[[TaskReport], None], stop: threading.Event) -> None:
    config = read_connector_config(setup.config)
    # Imported here: a sink needs less than both.
    if config.plugin.type is PluginType.SINK:
        from headwater.connect.runtime.task.sink_task import run_sink_task

        run_sink_task(setup, config, report=report, stop=stop)
    else:
        from headwater.connect.runtime.task.source_task import run_source_task

        run_source_task(setup, config, report=report, stop=stop)


def _trace(error: Exception) -> str:
    """One line for an error of the user, a traceback for an unexpected one."""
    if isinstance(error, HeadwaterError):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))


def _log_to_standard_error(setup: TaskSetup) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format=f"%(asctime)s %(levelname)-7s [{setup.connector}|task-0] %(name)s: %(message)s",
    )
    for name, level in setup.loggers.items():
        logging.getLogger(None if name == "root" else name).setLevel(level)


if __name__ == "__main__":
    main()

"""PySpark's daemon, which imports before it forks and pauses after each task.

Spark runs `python -m headwater.spark.python_daemon WORKER_MODULE` because a session sets
`spark.python.daemon.module`. The loop that forks workers is PySpark's own. Four things differ:

- The daemon imports what its workers need, so that each forked worker has it at once.
- PySpark collects garbage after every task in every reused worker. A full collection visits each
  object of each imported module, which takes longer than the task of a small batch. Objects that
  are alive after the imports are frozen (`gc.freeze`), and the collections skip them.
- pyspark is imported from where it is installed. `PYTHONPATH` names a zip file of the same code
  without bytecode, from which the import takes a second longer.
- A worker whose connection is closed by the JVM ends without a traceback.

`spark.python.daemon.module=pyspark.daemon` switches back to Spark's daemon.

Note: standard output carries the daemon's port to Spark. Nothing else may be printed there.
"""

import contextlib
import gc
import importlib
import importlib.machinery
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Final

MODULE: Final = __name__ if __name__ != "__main__" else "headwater.spark.python_daemon"

_TASKS: Final = "pyspark.worker"
_FOR_TASKS: Final = (
    "pyarrow",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.plan_data_source_read",
    "headwater.spark.source.readers",
    "headwater.spark.sink.writers",
    "headwater.client.consumer.offset_range_reader",
)
_FOR_PLANS: Final = ("headwater.spark.source.readers", "headwater.spark.sink.writers")
_ZIP_FILES: Final = ("pyspark.zip", "-src.zip")


class FreezingCollector:
    """Stands in for the module `gc` in PySpark's daemon.

    Objects are frozen only after a task that imported modules, when a collection has just removed
    the garbage. So a worker's frozen objects are bounded by its imports, not by its tasks.
    """

    def __init__(self) -> None:
        self._modules = 0

    def collect(self) -> int:
        found = gc.collect()
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            gc.freeze()
        return found


class QuietTraceback:
    """Stands in for the module `traceback` in PySpark's daemon.

    A worker that writes to a JVM which has closed the connection ends, as it should: the query was
    stopped, or its task has enough rows. That is no news for a user's terminal.
    """

    def print_exc(self) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            traceback.print_exc()

    def format_exc(self) -> str:
        return traceback.format_exc()


def main(arguments: list[str]) -> None:
    use_installed_pyspark()
    preload(modules_for(arguments[0] if arguments else _TASKS))
    _warn_of_pure_kernel()
    os.register_at_fork(after_in_child=_reseed_numpy)
    daemon = importlib.import_module("pyspark.daemon")
    collector = FreezingCollector()
    collector.collect()
    # The daemon calls nothing else of these modules.
    daemon.gc = collector  # type: ignore[attr-defined]
    daemon.traceback = QuietTraceback()  # type: ignore[attr-defined]
    run: Callable[[], None] = daemon.manager
    run()


def modules_for(worker_module: str) -> tuple[str, ...]:
    """The modules to import before workers that run `worker_module` are forked."""
    return (worker_module, *(_FOR_TASKS if worker_module == _TASKS else _FOR_PLANS))


def preload(modules: Iterable[str]) -> None:
    """Import what can be imported; a worker reports what cannot, when it needs it."""
    with contextlib.redirect_stdout(sys.stderr):
        for name in modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def use_installed_pyspark() -> None:
    """Remove pyspark's zip files from the path if pyspark is installed, too."""
    kept = [each for each in sys.path if not each.endswith(_ZIP_FILES)]
    if importlib.machinery.PathFinder.find_spec("pyspark", kept) is None:
        return
    sys.path[:] = kept
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        each for each in named if not each.endswith(_ZIP_FILES)
    )


def _reseed_numpy() -> None:
    """Seed numpy in each worker; unlike Python it keeps the parent's state."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _warn_of_pure_kernel() -> None:
    """Say so on standard error, which is the log of the executor."""
    from headwater.spark.installation import kernel_warning

    if warning := kernel_warning():
        print(f"headwater: {warning}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])

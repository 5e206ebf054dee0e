"""Start Spark sessions for topics: find Java, tune settings, register formats.

    spark = headwater.spark.session("local[2]")

The master decides who starts Java and where tasks run:

- `local[N]`: this process starts a JVM, which also runs the tasks.
- `spark://`, `yarn`, `k8s://`: this process starts a JVM as the driver; executors run the tasks.
- `sc://`: a Spark Connect server has both.
- none, in a program that `spark-submit` started: the JVM is there, with its own settings.

Note: settings reach Spark before its JVM starts. A session that exists already keeps its own, and
only learns the formats. The caller's settings win over the tuned ones.
"""

import importlib.util
import logging
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.process.java import Java, find_java
from headwater.spark import python_daemon
from headwater.spark.class_archive import reading_option
from headwater.spark.exceptions import InvalidOption
from headwater.spark.installation import check_spark_version, is_in_zip_file, kernel_warning
from headwater.spark.java_process import (
    JAVA_OPTIONS,
    LOG_LEVEL,
    has_java_process,
    logging_option,
    start_java,
)
from headwater.spark.local_permissions import set_permissions_in_java
from headwater.spark.worker_python import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

CONNECT: Final = "sc://"
_LOCAL: Final = "local"
_MASTERS: Final = (_LOCAL, "spark://", "k8s://", "yarn", CONNECT)

_STATE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKPOINTS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# A session can change these while it runs, and so can a client of Spark Connect.
_TUNED_SESSION: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": _STATE,
    # Few large Arrow batches cost the sink less than many small ones.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.metricsEnabled": "true",
}
_TUNED: Final = {
    **_TUNED_SESSION,
    # The sink fences the second of two attempts that run at once: its work is lost.
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Between an executor's JVM and its Python workers, on the same machine.
    "spark.python.unix.domain.socket.enabled": "true",
}
COLLECTOR: Final = "-XX:+UseParallelGC"
"""Rows are short-lived: the parallel collector costs the JVM a quarter less per row than the
default, which is made for short pauses."""

_TUNED_LOCALLY: Final = {
    # The default one starts child processes for each checkpoint file; what this one starts, for
    # permissions, `local_permissions` avoids.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    JAVA_OPTIONS: COLLECTOR,
}
_DAEMON: Final = "spark.python.daemon.module"


def session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    app_name: str = "headwater",
    log_file: Path | None = None,
) -> "SparkSession":
    """Start a session on `master`, or return the active one.

    Without a master it is the one of `spark-submit` or `spark.master`, else all cores of this
    machine. `log_file` takes the log of Spark and of its Python workers on this machine, which
    otherwise goes to standard error.
    """
    check_spark_version()
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None:
        found = _start(master, dict(conf or {}), app_name, log_file)
    register(found)
    return found


def register(spark: "SparkSession") -> None:
    """Make `format("headwater")` and the formats of connectors known to a session."""
    check_spark_version()
    from headwater.spark.data_source import HeadwaterSource

    spark.dataSource.register(HeadwaterSource)
    # Layers above register their sources by entry point, such as `headwater-connect`.
    for source in entry_points(group="headwater.spark.data_sources"):
        spark.dataSource.register(source.load())


def tuned(master: str, cores: int) -> dict[str, str]:
    """The settings for pipelines on a kind of master."""
    settings = dict(_TUNED)
    if not is_in_zip_file():
        # Executors find a module of a zip file only after their daemon has started.
        settings[_DAEMON] = python_daemon.MODULE
    if is_local(master):
        settings |= _TUNED_LOCALLY
        settings["spark.sql.shuffle.partitions"] = str(cores)
    return settings


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's JVM."""
    return master.startswith(_LOCAL) and not master.startswith("local-cluster")


def check_master(master: str) -> None:
    """Reject an unknown kind of master before Java fails with a long trace."""
    if not master.startswith(_MASTERS):
        known = "local[2], spark://..., k8s://..., yarn or sc://..."
        raise InvalidOption(f"unknown master {master}; a master is {known}")


def local_master(cores: int) -> str:
    """All cores, and four attempts at a task; a plain `local` makes one attempt only."""
    return f"local[{cores},4]"


def _start(
    master: str | None, conf: dict[str, str], app_name: str, log_file: Path | None
) -> "SparkSession":
    if warning := kernel_warning():
        _log.warning("%s", warning)
    remote = os.environ.get("SPARK_REMOTE")
    if master is None and remote is not None:
        master = remote
    if master is not None:
        check_master(master)
        if master.startswith(CONNECT):
            return _connect(master, conf, app_name)
    if has_java_process(os.environ):
        return _in_submitted_program(master, conf, app_name)
    java = find_java(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    return _launch(java, master, conf, app_name, log_file)


def _connect(url: str, conf: dict[str, str], app_name: str) -> "SparkSession":
    """A session of a Spark Connect server, which has its own Java and workers."""
    from pyspark.sql import SparkSession

    if importlib.util.find_spec("grpc") is None:
        raise InvalidOption(
            f"the master {url} needs Spark Connect's client: pip install 'pyspark[connect]'"
        )
    conf.pop(LOG_LEVEL, None)
    builder = SparkSession.builder.remote(url).appName(app_name)
    for name, value in {**_TUNED_SESSION, **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _in_submitted_program(
    master: str | None, conf: dict[str, str], app_name: str
) -> "SparkSession":
    """A session in `spark-submit`, whose options win over the tuned settings."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    submitted = dict(SparkConf().getAll())
    cores = len(os.sched_getaffinity(0))
    chosen = master or submitted.get("spark.master") or local_master(cores)
    check_master(chosen)
    choose_worker_python({**submitted, **conf}, is_local=is_local(chosen))
    settings = {**tuned(chosen, cores), **submitted, **conf}
    # The JVM runs, so options for its start come too late.
    settings.pop(JAVA_OPTIONS, None)
    settings.setdefault("spark.app.name", app_name)
    builder = SparkSession.builder.master(chosen)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return _created(builder, chosen)


def _launch(
    java: Java, master: str | None, conf: dict[str, str], app_name: str, log_file: Path | None
) -> "SparkSession":
    from pyspark.sql import SparkSession

    cores = len(os.sched_getaffinity(0))
    chosen = master or conf.pop("spark.master", None) or local_master(cores)
    check_master(chosen)
    settings = tuned(chosen, cores)
    options = [settings.get(JAVA_OPTIONS), reading_option(java, os.environ)]
    if option := logging_option(conf, os.environ):
        options.append(option)
        del conf[LOG_LEVEL]
    settings[JAVA_OPTIONS] = " ".join(each for each in options if each)
    settings |= conf
    settings |= choose_worker_python(settings, is_local=is_local(chosen))
    settings |= {"spark.master": chosen, "spark.app.name": app_name}
    start_java(settings, log_file)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return _created(builder, chosen)


def _created(builder: "SparkSession.Builder", master: str) -> "SparkSession":
    spark = builder.getOrCreate()
    if is_local(master):
        set_permissions_in_java(spark)
    return spark

"""A Spark session that is set up for pipelines: Java found, settings tuned, `headwater` registered.

    spark = headwater.spark.session("local[2]")

What a reader would get wrong: settings are given to Spark before its JVM starts, so a session that
is there already keeps its own, and only learns the data source. What the caller sets wins over what
is tuned here.

Most of the wait for a first batch is Python importing pyspark from a zip file in every worker. With
a `local` master the workers are therefore started by a script that leaves the zip out of their
path, since the same package is installed beside it. Java's part of the wait is a third less where
somebody has prepared for it (`headwater.spark.class_archive`).
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.process.java import Java, find_java
from headwater.spark.class_archive import reading_option
from headwater.spark.exceptions import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKPOINTS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_TUNED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": _STATE,
    # Many small columns batches cost the sink more than few large ones.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # A task that runs twice at once is only fenced off, and has worked for nothing.
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "true",
}
COLLECTOR: Final = "-XX:+UseParallelGC"
"""Rows are short-lived: collecting them in parallel costs the JVM a quarter less per row than its
default, which is made for short pauses."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_TUNED_LOCALLY: Final = {
    # Without Hadoop's native library each checkpoint file costs a child process or two. Its raw
    # file system would cost none, but state stores cannot be written with it.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.python.unix.domain.socket.enabled": "true",
    _JAVA_OPTIONS: COLLECTOR,
}

LOG_LEVEL: Final = "spark.log.level"
_LOGS: Final = """rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
# Spark takes the level of this one for that of all, and says so if it is another.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
"""

_MASTERS: Final = ("local", "spark://", "k8s://", "yarn")

_WORKER: Final = """#!/bin/sh
# Leaves pyspark's zip file out of the path: it holds no bytecode, and takes a second to import.
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
exec {python} "$@"
"""


def session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    app_name: str = "headwater",
) -> "SparkSession":
    """A session on `master` (the environment's, or all cores of this machine, if not given)."""
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is None:
        java = find_java(os.environ)
        os.environ["JAVA_HOME"] = str(java.home)
        there = _build(java, master, dict(conf or {}), app_name)
    register(there)
    return there


def register(spark: "SparkSession") -> None:
    """Make `format("headwater")`, and that of connectors, known to a session."""
    from headwater.spark.data_source import HeadwaterSource

    spark.dataSource.register(HeadwaterSource)
    # Layers above register their sources by entry point, such as `headwater-connect`.
    for source in entry_points(group="headwater.spark.data_sources"):
        spark.dataSource.register(source.load())


def tuned(master: str, cores: int) -> dict[str, str]:
    """The settings that serve pipelines best, for a kind of master."""
    settings = dict(_TUNED)
    if not master.startswith("local"):
        return settings
    settings |= _TUNED_LOCALLY
    settings["spark.sql.shuffle.partitions"] = str(cores)
    return settings


def check_master(master: str) -> None:
    """Refuse what is none, before Java is started and ends with a page of exceptions."""
    if not master.startswith(_MASTERS):
        known = "local[2], spark://..., k8s://... or yarn"
        raise InvalidOption(f"{master} is no master; one is {known}")


def local_master(cores: int) -> str:
    """All cores of this machine, and four attempts at a task, of which plain `local` has one."""
    return f"local[{cores},4]"


def _build(java: Java, master: str | None, conf: dict[str, str], app_name: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    cores = len(os.sched_getaffinity(0))
    chosen = master or conf.pop("spark.master", None) or local_master(cores)
    check_master(chosen)
    settings = tuned(chosen, cores)
    if chosen.startswith("local") and (option := reading_option(java, os.environ)):
        settings[_JAVA_OPTIONS] += f" {option}"
    if chosen.startswith("local") and (option := logging_option(conf, os.environ)):
        settings[_JAVA_OPTIONS] += f" {option}"
        del conf[LOG_LEVEL]
    settings |= conf
    if chosen.startswith("local") and "spark.pyspark.python" not in settings:
        # Spark's JVM reads the environment, and not the settings, when Python has started it: one
        # for tasks, and the other for the process that looks which formats are installed.
        script = str(worker_script())
        os.environ.setdefault("PYSPARK_PYTHON", script)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", script)
    builder = SparkSession.builder.master(chosen).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def logging_option(conf: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """What has Java log from a level on, if there is one, and nobody has said how to log.

    Told to Spark in the usual way, a level holds only after a page of warnings.
    """
    level = conf.get(LOG_LEVEL)
    if level is None or _JAVA_OPTIONS in conf or _has_log_settings(environment):
        return None
    file = _folder() / "log4j2.properties"
    file.write_text(_LOGS.format(level=level.lower()))
    return f"-Dlog4j2.configurationFile=file:{file}"


def _has_log_settings(environment: Mapping[str, str]) -> bool:
    """Whether somebody has said what Spark is to log."""
    folders = [environment.get("SPARK_CONF_DIR"), environment.get("SPARK_HOME", "") + "/conf"]
    return any((Path(each) / "log4j2.properties").exists() for each in folders if each)


def _folder() -> Path:
    """One that is gone when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def worker_script() -> Path:
    """A Python for workers that leaves the zip file out; gone when this process ends."""
    script = _folder() / "python"
    script.write_text(_WORKER.format(python=sys.executable))
    script.chmod(0o700)
    return script

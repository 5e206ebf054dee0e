"""Start the driver's JVM: its logging, and the file that takes what it prints."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
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
_LOG_BYTES_MAX: Final = 16 << 20


def has_java_process(environment: Mapping[str, str]) -> bool:
    """Whether a JVM started this program, as `spark-submit` does."""
    return "PYSPARK_GATEWAY_PORT" in environment


def start_java(settings: Mapping[str, str], log_file: Path | None) -> None:
    """Start the JVM in which the next session of this process will run.

    Its standard error goes to `log_file`, and so does that of the Python workers it starts:
    PySpark's workers print a traceback when a session ends while they wait for a task.
    """
    from pyspark import SparkConf, SparkContext, java_gateway

    if SparkContext._gateway is not None:
        # One JVM serves all sessions that a process starts one after the other.
        return
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    launch: Callable[..., Any] = java_gateway.launch_gateway
    if log_file is None:
        gateway = launch(conf)
    else:
        with _opened(log_file) as descriptor:
            gateway = launch(conf, {"stderr": descriptor})
    SparkContext._ensure_initialized(gateway=gateway)


def logging_option(conf: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """The option for Java's log level, if `conf` sets one and no file does.

    Spark applies its own setting of that name only after it has logged a page of warnings.
    """
    level = conf.get(LOG_LEVEL)
    if level is None or JAVA_OPTIONS in conf or _has_log_settings(environment):
        return None
    file = temporary_folder() / "log4j2.properties"
    file.write_text(_LOGS.format(level=level.lower()))
    return f"-Dlog4j2.configurationFile=file:{file}"


def temporary_folder() -> Path:
    """A folder that is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _has_log_settings(environment: Mapping[str, str]) -> bool:
    folders = [environment.get("SPARK_CONF_DIR"), environment.get("SPARK_HOME", "") + "/conf"]
    return any((Path(each) / "log4j2.properties").exists() for each in folders if each)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The descriptor of a log file; a large one is renamed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _LOG_BYTES_MAX:
        path.replace(path.with_name(path.name + ".1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

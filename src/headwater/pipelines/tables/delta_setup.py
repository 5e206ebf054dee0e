"""Delta's jar for each Spark version, and the settings that Spark needs for it."""

import re
from collections.abc import Mapping
from importlib import metadata
from typing import Final

# Delta 4.4.0 for Spark 4.2 fails on Spark 4.3: a method that it calls has another signature.
_JARS: Final[Mapping[tuple[int, int], str]] = {
    (4, 2): "io.delta:delta-spark_4.2_2.13:4.4.0",
}
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# Delta reads a table's log in so many tasks, 50 by default, and each compiles code of its own: on
# two busy cores a first batch of 6,000 rows took two minutes.
_SNAPSHOT_PARTITIONS: Final = "spark.databricks.delta.snapshotPartitions"
_PACKAGES: Final = "spark.jars.packages"
_EXTENSIONS: Final = "spark.sql.extensions"


def why_no_delta(pyspark: str | None = None) -> str | None:
    """Return the reason in one line if no Delta supports the installed PySpark."""
    version = metadata.version("pyspark") if pyspark is None else pyspark
    if _release(version) in _JARS:
        return None
    known = " or ".join(f"{major}.{minor}" for major, minor in _JARS)
    return (
        f"delta needs PySpark {known}, and {version} is installed: pip install 'pyspark=={known}.*'"
    )


def delta_conf(conf: Mapping[str, str], pyspark: str | None = None) -> dict[str, str]:
    """Return the settings of a session with Delta; keeps jars named in `conf`."""
    jar = _JARS[_release(metadata.version("pyspark") if pyspark is None else pyspark)]
    found = dict(conf)
    if not any("delta-spark" in conf.get(name, "") for name in (_PACKAGES, "spark.jars")):
        found[_PACKAGES] = _joined(conf.get(_PACKAGES), jar)
    if _EXTENSION not in conf.get(_EXTENSIONS, ""):
        found[_EXTENSIONS] = _joined(conf.get(_EXTENSIONS), _EXTENSION)
    found.setdefault("spark.sql.catalog.spark_catalog", _CATALOG)
    found.setdefault(_SNAPSHOT_PARTITIONS, "4")
    return found


def _joined(*texts: str | None) -> str:
    return ",".join(each for each in texts if each)


def _release(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))

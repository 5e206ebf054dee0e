"""Find problems of sources and sinks in Spark's formats: files, tables, tests.

Formats that are not installed are refused, and so are options that a built-in format does not have.
"""

import os
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from headwater.pipelines.check import table_check
from headwater.pipelines.spec.document import Place
from headwater.pipelines.spec.pipeline_spec import Mode, PipelineSpec, SinkSpec, SourceSpec
from headwater.pipelines.spec.spark_formats import (
    FILE_FORMATS,
    JAR_SETTINGS,
    option_problems,
    unknown_format_reason,
)

_PYTHON_SOURCES: Final = "pyspark_"
_OURS: Final = "pyspark_headwater"

Problem = tuple[Place, str]


def of_source(source: SourceSpec, spec: PipelineSpec) -> Iterator[Problem]:
    match source.format.lower():
        case "delta":
            yield from table_check.of_delta(source, spec)
        case "iceberg":
            yield from table_check.of_iceberg(source)
        case _ if source.table.name is not None:
            yield (*source.place, "table"), f"{source.format} has no tables: set path"
        case _ if source.table.catalog:
            yield (*source.place, "catalog"), "only iceberg has a catalog"
    yield from _of_format(source, spec, "static" if source.is_static else "stream")


def of_sink(sink: SinkSpec, spec: PipelineSpec) -> Iterator[Problem]:
    yield from _of_format(sink, spec, "sink")
    match sink.format.lower():
        case "delta":
            yield from table_check.of_delta(sink, spec)
            yield from table_check.of_delta_sink(sink)
        case "iceberg":
            yield from table_check.of_iceberg(sink)
            yield from table_check.of_iceberg_sink(sink)
        case _:
            yield from _of_files(sink, spec)


def _of_files(sink: SinkSpec, spec: PipelineSpec) -> Iterator[Problem]:
    table = sink.table
    is_files = sink.format.lower() in FILE_FORMATS
    if is_files and sink.mode is not Mode.APPEND:
        reason = f"files of {sink.format} can only be appended to; delta can be merged into"
        yield (*sink.place, "mode"), reason
    if is_files and ("path" in sink.options) is (table.name is not None):
        yield sink.place, f"{sink.name}: {sink.format} needs path, or table"
    if table.name is not None and not has_lasting_catalog(table.name, spec.conf):
        yield (
            (*sink.place, "table"),
            f"{sink.name}: Spark would forget the table {table.name} at its end: set path, or "
            "spark.sql.catalogImplementation: hive in session.conf, or a catalog's settings",
        )
    unfit = {
        "merge": table.merge is not None,
        "schema_evolution": table.schema_evolution,
        "catalog": bool(table.catalog),
        "partition_by": bool(table.partition_by) and not is_files,
        "files": table.files is not None and not is_files,
    }
    for word, is_said in unfit.items():
        if is_said:
            whose = "iceberg" if word == "catalog" else "delta and iceberg"
            kinds = f"files, {whose}" if word in ("partition_by", "files") else whose
            yield (*sink.place, word), f"{sink.format} has no {word}: that is for {kinds}"
    for each in table.partition_by:
        if each.transform != "identity":
            reason = f"{sink.format} is partitioned by columns only, not by {each.transform}(...)"
            yield (*sink.place, "partition_by"), reason


def has_lasting_catalog(table: str, conf: Mapping[str, str]) -> bool:
    """Return whether a later Spark session will find a table of this name."""
    if conf.get("spark.sql.catalogImplementation") == "hive":
        return True
    catalog = table.split(".")[0] if table.count(".") > 1 else "spark_catalog"
    return f"spark.sql.catalog.{catalog}" in conf


def _at(end: SourceSpec | SinkSpec, option: str | None) -> Place:
    return end.place if option is None else (*end.place, option)


def _of_format(end: SourceSpec | SinkSpec, spec: PipelineSpec, use: str) -> Iterator[Problem]:
    reason = unknown_format_reason(end.format, _conf(spec), installed_formats())
    if reason is not None:
        yield (*end.place, "format"), f"{end.name}: {reason}"
        return
    for option, text in option_problems(end.format, use, end.options):
        yield _at(end, option), f"{end.name}: {text}"


def installed_formats() -> list[str]:
    """Return formats of installed Python data sources, derived from package names.

    Note: a package `pyspark_NAME` registers itself when Spark first looks for a format. It is not
    imported here, so its format is assumed to be NAME.
    """
    named = [each.name for each in entry_points(group="headwater.spark.data_sources")]
    found = [
        each.name.removeprefix(_PYTHON_SOURCES)
        for each in pkgutil.iter_modules()
        if each.name.startswith(_PYTHON_SOURCES) and each.name != _OURS
    ]
    return [*named, *found]


def _conf(spec: PipelineSpec) -> Mapping[str, str]:
    """Return the pipeline's Spark settings, and this machine's settings for jars."""
    return {**jars_of_this_machine(os.environ), **spec.conf}


def brings_jars(spec: PipelineSpec) -> bool:
    """Whether Spark gets jars that may have further formats and file systems."""
    conf = _conf(spec)
    return any(conf.get(each) for each in JAR_SETTINGS)


def jars_of_this_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for jars in spark-defaults.conf, if it exists."""
    folders = [
        environment.get("SPARK_CONF_DIR"),
        f"{environment['SPARK_HOME']}/conf" if environment.get("SPARK_HOME") else None,
    ]
    found: dict[str, str] = {}
    for folder in folders:
        if folder is None:
            continue
        try:
            lines = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            name, _, value = line.strip().replace("=", " ", 1).partition(" ")
            if name in JAR_SETTINGS and value.strip():
                found.setdefault(name, value.strip())
    return found

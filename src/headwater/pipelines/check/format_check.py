"""Find problems of sources and sinks in formats of Spark: files, tables, test formats.

Formats that are not installed are refused, and so are options that a built-in format does not have.
"""

import os
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from headwater.pipelines.spec.document import Place
from headwater.pipelines.spec.pipeline_spec import Mode, PipelineSpec, SinkSpec, SourceSpec
from headwater.pipelines.spec.spark_formats import (
    FILE_FORMATS,
    JAR_SETTINGS,
    option_problems,
    why_unknown,
)

_PYTHON_SOURCES: Final = "pyspark_"
_OURS: Final = "pyspark_headwater"

Complaint = tuple[Place, str]


def of_source(source: SourceSpec, spec: PipelineSpec) -> Iterator[Complaint]:
    yield from _of_format(source, spec, "stream")


def of_sink(sink: SinkSpec, spec: PipelineSpec) -> Iterator[Complaint]:
    yield from _of_format(sink, spec, "sink")
    if sink.format.lower() in FILE_FORMATS:
        if sink.mode is not Mode.APPEND:
            yield (*sink.place, "mode"), f"files of {sink.format} can only be appended to"
        if "path" not in sink.options:
            yield sink.place, f"{sink.name}: {sink.format} needs path"


def _of_format(end: SourceSpec | SinkSpec, spec: PipelineSpec, use: str) -> Iterator[Complaint]:
    reason = why_unknown(end.format, _conf(spec), installed_formats())
    if reason is not None:
        yield (*end.place, "format"), f"{end.name}: {reason}"
        return
    for option, text in option_problems(end.format, use, end.options):
        yield (end.place if option is None else (*end.place, option)), f"{end.name}: {text}"


def installed_formats() -> list[str]:
    """Formats of installed Python data sources, as far as their names tell.

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
    """The pipeline's settings of Spark, and those of this machine that bring jars."""
    return {**jars_of_this_machine(os.environ), **spec.conf}


def jars_of_this_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """What spark-defaults.conf says of jars, if there is one."""
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

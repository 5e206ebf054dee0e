"""Read a document as a pipeline.

Keys that pipelines do not define are kept as options of the format. `pipeline_check` validates them
with the format or connector.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from headwater.pipelines.spec.document import Document, PipelineProblem
from headwater.pipelines.spec.pipeline_spec import (
    LookupSpec,
    PipelineSpec,
    PythonStep,
    Restarts,
    SinkSpec,
    SourceSpec,
    StepSpec,
    Trigger,
)
from headwater.pipelines.spec.section import Section
from headwater.pipelines.spec.sink_reader import read_sink
from headwater.pipelines.spec.source_reader import read_source, read_watermark
from headwater.pipelines.spec.sql_tables import tables_in
from headwater.spark.exceptions import InvalidOption
from headwater.spark.locations import has_scheme, resolved
from headwater.spark.settings_files import settings_in
from headwater.spark.worker_python import ARCHIVE

VERSION: Final = 1
_MODES: Final = {"stream": False, "batch": True}
# Names of pipelines and sinks are names of folders, too.
_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Names of sources and steps are names of tables in SQL.
_TABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def read_pipeline(document: Document) -> tuple[PipelineSpec, list[PipelineProblem]]:
    """Read a pipeline as far as possible; return it with all problems."""
    problems: list[PipelineProblem] = []
    top = Section(document, (), problems)
    version = top.raw("version")
    if version is not None and version != VERSION:
        top.add_problem(f"version must be {VERSION}, not {version!r}", "version")
    folder = document.file.parent
    is_batch = top.choice("mode", _MODES, default=False)
    spec = PipelineSpec(
        file=document.file,
        name=_name(top, document.file),
        checkpoint=resolved(top.text("checkpoint") or "./checkpoints", folder),
        bootstrap=top.text("bootstrap"),
        registry=top.text("registry"),
        settings=_settings(top, folder),
        sources=_sources(top, folder),
        steps=_steps(top, folder),
        sinks=_sinks(top, folder, is_batch=is_batch),
        is_batch=is_batch,
        commits_offsets=top.flag("commit_offsets", default=True),
        functions={} if document.module is None else vars(document.module),
        **_session(top, folder),
        **_on_error(top),
    )
    top.report_unknown()
    return spec, problems


def _name(top: Section, file: Path) -> str:
    name = top.text("name", is_needed=True)
    if name is None:
        return file.stem
    if _FOLDER_NAME.fullmatch(name) is None:
        top.add_problem(f"name must consist of letters, digits and ._-, not {name!r}", "name")
        return file.stem
    return name


def _path(text: str, folder: Path) -> Path:
    """Resolve a path relative to the pipeline file."""
    return Path(resolved(text, folder))


def _settings(top: Section, folder: Path) -> Path | None:
    text = top.text("settings")
    if text is None:
        return None
    path = _path(text, folder)
    try:
        settings_in(path)
    except InvalidOption as error:
        top.add_problem(str(error), "settings")
    return path


def _session(top: Section, folder: Path) -> dict[str, Any]:
    section = top.inner("session")
    if section is None:
        return {}
    conf = section.mapping("conf")
    package = section.text("package")
    if package is not None:
        file = resolved(package, folder)
        if not has_scheme(file) and not Path(file).is_file():
            section.add_problem(
                f"there is no file {file}: headwater pipeline package makes it", "package"
            )
        archives = [conf.get("spark.archives"), f"{file}#{ARCHIVE}"]
        conf["spark.archives"] = ",".join(each for each in archives if each)
    master = section.text("master")
    section.report_unknown()
    return {"master": master, "conf": conf}


def _on_error(top: Section) -> dict[str, Any]:
    section = top.inner("on_error")
    if section is None:
        return {}
    found: dict[str, Any] = {"dead_letter": section.text("dead_letter")}
    restart = section.inner("restart")
    if restart is not None:
        usual = Restarts()
        found["restarts"] = Restarts(
            max_count=restart.number("max", usual.max_count, 0),
            backoff_ms=restart.time_ms("backoff", usual.backoff_ms),
        )
        restart.report_unknown()
    section.report_unknown()
    return found


def _sources(top: Section, folder: Path) -> tuple[SourceSpec, ...]:
    sources = top.inner("sources")
    if sources is None or not sources.names():
        top.add_problem("a pipeline has no sources")
        return ()
    found = []
    for name in sources.names():
        _check_table_name(sources, name)
        section = sources.inner(name)
        if section is None:
            sources.add_problem(f"the source {name} is empty", name)
        else:
            found.append(read_source(section, name, folder))
    return tuple(found)


def _steps(top: Section, folder: Path) -> tuple[StepSpec, ...]:
    steps = top.inner("steps")
    found = []
    for name in [] if steps is None else steps.names():
        assert steps is not None
        _check_table_name(steps, name)
        section = steps.inner(name)
        if section is None:
            steps.add_problem(f"the step {name} is empty", name)
        else:
            found.append(_step(section, name, folder))
    return tuple(found)


def _check_table_name(section: Section, name: str) -> None:
    if _TABLE_NAME.fullmatch(name) is None:
        section.add_problem(f"{name!r} is no name for SQL: use letters, digits and _", name)


def _step(section: Section, name: str, folder: Path) -> StepSpec:
    sql, python = section.text("sql"), _python(section, folder)
    lookup = _lookup(section)
    if [sql, python, lookup].count(None) != 2:
        section.add_problem(f"the step {name} needs one of sql, python and lookup")
    inputs = section.texts("inputs")
    if lookup is not None:
        inputs = (lookup.stream, lookup.table)
    if sql is not None and not inputs:
        inputs = tuple(tables_in(sql))
    if python is not None and not inputs:
        section.add_problem(
            f"the step {name} has no inputs: list the frames that its function takes"
        )
    watermark = read_watermark(section)
    section.report_unknown()
    return StepSpec(
        name=name,
        place=section.place,
        inputs=inputs,
        sql=sql,
        python=python,
        lookup=lookup,
        watermark=watermark,
    )


def _lookup(section: Section) -> LookupSpec | None:
    inner = section.inner("lookup")
    if inner is None:
        return None
    found = LookupSpec(
        stream=inner.text("stream", is_needed=True) or "",
        table=inner.text("table", is_needed=True) or "",
        on=inner.mapping("on"),
        is_inner=inner.choice("how", {"left": False, "inner": True}, False),
    )
    if not found.on:
        inner.add_problem("lookup needs on: {column of the stream: column of the table's key}")
    inner.report_unknown()
    return found


def _python(section: Section, folder: Path) -> PythonStep | None:
    own = section.text("function")
    if own is not None:
        return PythonStep(file=None, function=own)
    text = section.text("python")
    if text is None:
        return None
    file, colon, function = text.rpartition(":")
    if not colon or not file.endswith(".py") or not function.isidentifier():
        section.add_problem(f"python must be like jobs.py:function, not {text!r}", "python")
        return None
    return PythonStep(file=_path(file, folder), function=function)


def _sinks(top: Section, folder: Path, *, is_batch: bool) -> tuple[SinkSpec, ...]:
    found: list[SinkSpec] = []
    for section in top.inner_list("sinks"):
        sink = read_sink(section, folder)
        if is_batch:
            if section.raw("trigger") is not None and sink.trigger.every_ms is not None:
                section.add_problem(
                    "sinks of a pipeline with mode: batch cannot have a trigger", "trigger"
                )
            sink = replace(sink, trigger=Trigger())
        if _FOLDER_NAME.fullmatch(sink.name) is None:
            section.add_problem(
                f"a sink's name must consist of letters, digits and ._-, not {sink.name!r}"
            )
        if any(each.name == sink.name for each in found):
            section.add_problem(f"there are two sinks called {sink.name}: give one another name")
        found.append(sink)
    if not found:
        top.add_problem("a pipeline has no sinks")
    return tuple(found)

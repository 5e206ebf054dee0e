"""A pipeline as its test runs it, with nothing outside the test.

Topics are those of the embedded broker, files are in the test's folder, and what would be written
to another system is kept in memory.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from headwater.pipelines.spec.pipeline_spec import PipelineSpec, Restarts, SinkSpec, SourceSpec
from headwater.testing.pipelines.captured_sinks import CAPTURE, SINK

FILES: Final = frozenset({"csv", "json", "orc", "parquet", "text", "xml"})
"""Spark's own formats of files."""

_FILES_CONNECTOR: Final = "files"
_ENDINGS: Final = ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp")
# Where to begin and which cluster, which are the test's to say.
_DROPPED: Final = re.compile(
    r"kafka\.(bootstrap\.servers|security\.|sasl\.|ssl\.)|settingsfile$|starting", re.IGNORECASE
)

Changes = Mapping[str, Mapping[str, str]]


def local_spec(
    spec: PipelineSpec,
    *,
    bootstrap: str,
    settings: Path | None,
    registry: str | None,
    folder: Path,
    changes: Changes,
    fed: Mapping[str, str | None],
) -> PipelineSpec:
    """`changes` are options that the test gives; `fed` the sources that it feeds.

    A fed source that is no topic is replaced by files of JSON, unless it is one of files; its
    schema is the value in `fed`.
    """
    written = {path for sink in spec.sinks if (path := path_of(sink)) is not None}
    return replace(
        spec,
        bootstrap=bootstrap,
        settings=settings,
        registry=registry,
        master=None,
        checkpoint=str(folder / "checkpoint"),
        restarts=Restarts(max_count=0),
        sources=tuple(_source(each, folder, changes, fed, written) for each in spec.sources),
        sinks=tuple(_sink(each, folder, changes) for each in spec.sinks),
    )


def captured(spec: PipelineSpec, changes: Changes) -> PipelineSpec:
    """The sinks that are kept in memory write to no other system."""
    return replace(spec, sinks=tuple(_captured(each, changes) for each in spec.sinks))


def path_of(what: SourceSpec | SinkSpec) -> str | None:
    """The folder of files; None if it is a topic or another system."""
    if what.is_topic or (what.connector is not None and what.connector != _FILES_CONNECTOR):
        return None
    return what.options.get("path")


def is_file_sink(sink: SinkSpec) -> bool:
    """Whether the sink's files can be read back with its own format."""
    return sink.connector is None and sink.format in FILES and "path" in sink.options


def local_path(folder: Path, path: str) -> str:
    """Return the folder that stands for a path in the test."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path).strip("-.")
    return str(folder / "files" / name)


def _source(
    source: SourceSpec,
    folder: Path,
    changes: Changes,
    fed: Mapping[str, str | None],
    written: Collection[str],
) -> SourceSpec:
    given = changes.get(source.name, {})
    if source.is_topic:
        options = {name: text for name, text in source.options.items() if not _DROPPED.match(name)}
        if source.is_table:
            return replace(source, registry=None, options={**options, **given})
        options = {name: text for name, text in options.items() if name.lower() not in _ENDINGS}
        # The topics begin with the test, and so does the query.
        options["startingOffsets"] = "earliest"
        return replace(source, registry=None, options={**options, **given})
    path = path_of(source)
    if path is not None and (source.name in fed or path in written):
        return replace(
            source, options={**source.options, "path": local_path(folder, path), **given}
        )
    if path is None and source.name in fed:
        at = str(folder / "files" / source.name)
        schema = fed[source.name]
        return replace(source, connector=None, format="json", schema=schema, options={"path": at})
    return replace(source, options={**source.options, **given})


def _sink(sink: SinkSpec, folder: Path, changes: Changes) -> SinkSpec:
    given = changes.get(sink.name, {})
    if sink.is_topic:
        options = {name: text for name, text in sink.options.items() if not _DROPPED.match(name)}
        encoding = None if sink.encoding is None else replace(sink.encoding, registry=None)
        return replace(sink, encoding=encoding, options={**options, **given})
    path = path_of(sink)
    moved = {} if path is None else {"path": local_path(folder, path)}
    return replace(sink, options={**sink.options, **moved, **given})


def _captured(sink: SinkSpec, changes: Changes) -> SinkSpec:
    if sink.is_topic or is_file_sink(sink):
        return sink
    named = {SINK: sink.name}
    if sink.connector == _FILES_CONNECTOR or (sink.connector is not None and sink.name in changes):
        return replace(sink, options={**sink.options, **named})
    return replace(sink, connector=CAPTURE, options=named)

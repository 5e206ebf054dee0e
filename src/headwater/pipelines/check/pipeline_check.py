"""Find problems of a pipeline before Spark starts.

Some checks need a port: Spark's grammar for SQL, brokers for topics, a registry for Avro. Without a
port its checks are skipped.

Note: column names are not checked; they are only known when Spark has planned the queries.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from headwater.common.exceptions import HeadwaterError
from headwater.pipelines.check import avro_check, format_check, step_graph
from headwater.pipelines.check.avro_check import Registries
from headwater.pipelines.check.connector_port import Connectors
from headwater.pipelines.check.topic_options import topic_options
from headwater.pipelines.run.avro_options import sink_avro
from headwater.pipelines.spec.document import Document, PipelineProblem, Place
from headwater.pipelines.spec.pipeline_spec import (
    HEADWATER,
    LookupSpec,
    Mode,
    PipelineSpec,
    PythonStep,
    SinkSpec,
    SourceSpec,
    StepSpec,
)
from headwater.spark.exceptions import InvalidOption
from headwater.spark.locations import unreachable_reason, why_no_file_system
from headwater.spark.sink.sink_options import SinkOptions, read_sink_options
from headwater.spark.source.source_options import SourceOptions, read_source_options
from headwater.spark.spark_session import CONNECT, check_master

_TIMES: Final = ("timestamp", "timestamp_ntz")
_QUERIES: Final = ("select", "with", "from", "values", "table", "(")

Problem = tuple[Place, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlError:
    """A syntax error in SQL; lines count from 1."""

    line: int
    text: str


class Grammar(Protocol):
    """Spark's grammar."""

    def query(self, sql: str) -> SqlError | None: ...

    def expression(self, sql: str) -> SqlError | None: ...


class Topics(Protocol):
    """Finds the topics of a cluster."""

    def known(self, client: Mapping[str, str]) -> set[str]:
        """The topics of a cluster. `HeadwaterError` if no broker answers."""


def check_pipeline(
    document: Document,
    spec: PipelineSpec,
    *,
    connectors: Connectors,
    grammar: Grammar | None,
    topics: Topics | None,
    registries: Registries | None = None,
) -> list[PipelineProblem]:
    """Return all problems, in the order of the file."""
    found = [
        *step_graph.graph_problems(spec),
        *_of_sources(spec, connectors, registries),
        *_of_steps(spec),
        *_of_sinks(spec, connectors, registries),
        *_of_master(spec),
        *_of_locations(spec),
    ]
    problems = [document.problem(place, text) for place, text in found]
    if grammar is not None:
        problems += _of_sql(document, spec, grammar)
    if topics is not None:
        problems += [document.problem(place, text) for place, text in _of_topics(spec, topics)]
    return sorted(problems, key=lambda each: each.line)


def _of_sources(
    spec: PipelineSpec, connectors: Connectors, registries: Registries | None
) -> Iterator[Problem]:
    for source in spec.sources:
        known = source
        if source.connector is not None:
            yield from _of_connector(source, connectors, is_source=True)
        elif source.is_topic:
            try:
                topic = source_options(source, spec).subscription.only_topic
            except InvalidOption as error:
                yield _place_of(source.place, source.options, str(error)), f"{source.name}: {error}"
            else:
                known, problems = avro_check.of_source(source, spec, topic, registries)
                yield from problems
        else:
            yield from format_check.of_source(source, spec)
        if source.watermark is not None:
            yield from _of_watermark(known)


def source_options(source: SourceSpec, spec: PipelineSpec) -> SourceOptions:
    given = topic_options(spec, source.options)
    return read_source_options(given, is_streaming=not source.is_table)


def sink_options(sink: SinkSpec, spec: PipelineSpec) -> SinkOptions:
    given = topic_options(spec, {**sink.options, **sink_avro(sink, spec)})
    return read_sink_options(given, is_streaming=True)


def _place_of(place: Place, options: Mapping[str, str], text: str) -> Place:
    """Return the place of the option that an error names, if any."""
    for name in sorted(options, key=len, reverse=True):
        if name.lower() in text.lower():
            return (*place, name)
    return place


def _of_connector(
    what: SourceSpec | SinkSpec, connectors: Connectors, *, is_source: bool
) -> Iterator[Problem]:
    assert what.connector is not None
    names = connectors.source_names() if is_source else connectors.sink_names()
    if what.connector not in names:
        known = f"there are {', '.join(names)}" if names else "none is installed"
        yield (*what.place, "connector"), f"there is no connector {what.connector}; {known}"
        return
    find = connectors.source if is_source else connectors.sink
    for text in find(what.connector).problems(what.options):
        yield _place_of(what.place, what.options, text), f"{what.connector}: {text}"


def _of_watermark(source: SourceSpec) -> Iterator[Problem]:
    assert source.watermark is not None
    column = source.watermark.column
    place = (*source.place, "watermark", column)
    fields = [
        each for decoding in (source.key, source.value) if decoding for each in decoding.fields
    ]
    if not source.is_topic or source.transforms:
        return
    if any(each and each.avro and not each.fields for each in (source.key, source.value)):
        # Only the registry knows its columns, and it was not requested.
        return
    if not fields:
        if column != "timestamp":
            yield place, f"the source {source.name} has no column {column}; decode its value"
        return
    kinds = {each.name.lower(): each.kind for each in fields}
    kind = kinds.get(column.lower())
    if kind is None:
        known = ", ".join(kinds)
        yield place, f"the source {source.name} has no column {column}; it has {known}"
    elif kind not in _TIMES:
        yield place, f"a watermark needs a timestamp, but {column} is of type {kind}"


def _of_steps(spec: PipelineSpec) -> Iterator[Problem]:
    for step in spec.steps:
        if step.sql is not None and not step.sql.lstrip().lower().startswith(_QUERIES):
            yield (*step.place, "sql"), f"the step {step.name} must be a query: select ..."
        if step.python is not None and step.python.file is not None:
            yield from _of_function(step, step.python)
        if step.lookup is not None:
            yield from _of_lookup(step, step.lookup, spec)


def _of_lookup(step: StepSpec, lookup: LookupSpec, spec: PipelineSpec) -> Iterator[Problem]:
    place = (*step.place, "lookup")
    table = next((each for each in spec.sources if each.name == lookup.table), None)
    if table is None or not table.is_table:
        yield (*place, "table"), f"{lookup.table} must be a source with table: true"
        return
    if table.key is None or table.value is None:
        yield (*place, "table"), f"{lookup.table} must decode its key and its value"
        return
    names = [each.name for each in table.key.fields]
    if names and sorted(names) != sorted(lookup.on.values()):
        known = ", ".join(names)
        yield (*place, "on"), f"a lookup needs all columns of the key of {lookup.table}: {known}"


def _of_function(step: StepSpec, python: PythonStep) -> Iterator[Problem]:
    place = (*step.place, "python")
    assert python.file is not None
    try:
        tree = ast.parse(python.file.read_text(encoding="utf-8"))
    except OSError:
        yield place, f"there is no file {python.file}"
        return
    except (SyntaxError, ValueError) as error:
        yield place, f"{python.file} is not valid Python: {error}"
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == python.function:
            takes = len(node.args.posonlyargs) + len(node.args.args)
            if takes != len(step.inputs) and node.args.vararg is None:
                yield (
                    place,
                    (
                        f"{python.function} takes {takes} frames, but the step {step.name} has "
                        f"{len(step.inputs)} inputs"
                    ),
                )
            return
    yield place, f"{python.file.name} has no function {python.function}"


def _of_sinks(
    spec: PipelineSpec, connectors: Connectors, registries: Registries | None
) -> Iterator[Problem]:
    for sink in spec.sinks:
        if sink.connector is not None:
            yield from _of_connector(sink, connectors, is_source=False)
        elif sink.format == HEADWATER:
            yield from _of_topic_sink(sink, spec, registries)
        else:
            yield from format_check.of_sink(sink, spec)
    if spec.dead_letter is not None and spec.bootstrap is None:
        yield ("on_error", "dead_letter"), "dead letters need brokers: set bootstrap"


def _of_master(spec: PipelineSpec) -> Iterator[Problem]:
    if spec.master is not None:
        try:
            check_master(spec.master)
        except InvalidOption as error:
            yield ("session", "master"), str(error)
        if spec.master.startswith(CONNECT):
            text = f"pipelines do not run through Spark Connect ({spec.master}); programs do"
            yield ("session", "master"), text


def _of_locations(spec: PipelineSpec) -> Iterator[Problem]:
    """Report folders out of executors' reach and schemes without a file system."""
    for place, whose, location in _locations(spec):
        if reason := unreachable_reason(location, spec.master):
            yield place, f"{whose}: {reason}"
        if reason := why_no_file_system(location, format_check.brings_jars(spec)):
            yield place, f"{whose}: {reason}"


def _locations(spec: PipelineSpec) -> Iterator[tuple[Place, str, str]]:
    yield ("checkpoint",), "checkpoint", spec.checkpoint
    ends: tuple[SourceSpec | SinkSpec, ...] = (*spec.sources, *spec.sinks)
    for each in ends:
        path = None if each.connector is not None or each.is_topic else each.options.get("path")
        if path is not None:
            yield (*each.place, "path"), each.name, path


def _of_topic_sink(
    sink: SinkSpec, spec: PipelineSpec, registries: Registries | None
) -> Iterator[Problem]:
    try:
        read = sink_options(sink, spec)
    except InvalidOption as error:
        yield _place_of(sink.place, sink.options, str(error)), f"{sink.name}: {error}"
    else:
        yield from avro_check.of_sink(sink, read.topic, dict(read.avro), registries)
    if sink.record.tombstone is not None and sink.record.key is None:
        yield (*sink.place, "tombstone"), "a tombstone without a key deletes nothing: set key"
    if sink.mode is Mode.UPDATE and sink.record.key is None:
        yield (*sink.place, "mode"), "updates without a key replace nothing: set key"
    if sink.create is not None and "topic" not in sink.options:
        yield (*sink.place, "create"), "create needs the name of the topic: set topic"


def _of_sql(document: Document, spec: PipelineSpec, grammar: Grammar) -> Iterator[PipelineProblem]:
    for step in spec.steps:
        if step.sql is not None:
            yield from _sql_problem(
                document, (*step.place, "sql"), step.sql, grammar.query(step.sql)
            )
    for sink in spec.sinks:
        record = sink.record
        expressions = {"key": record.key, "value": record.value, "tombstone": record.tombstone}
        for name, text in expressions.items():
            if text is not None:
                yield from _sql_problem(
                    document, (*sink.place, name), text, grammar.expression(text)
                )
        for name, text in record.headers.items():
            place = (*sink.place, "headers", name)
            yield from _sql_problem(document, place, text, grammar.expression(text))


def _sql_problem(
    document: Document, place: Place, sql: str, error: SqlError | None
) -> Iterator[PipelineProblem]:
    if error is None:
        return
    line = document.line_of(place)
    lines = sql.splitlines()
    if 0 < error.line <= len(lines):
        # The first line of a multi-line string depends on the file's language.
        line = _line_with(document.file, lines[error.line - 1].strip(), line)
    yield PipelineProblem(file=document.file, line=line, text=f"invalid SQL: {error.text}")


def _line_with(file: Path, text: str, first: int) -> int:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return first
    for number, line in enumerate(lines[first - 1 :], first):
        if text and text in line:
            return number
    return first


def _of_topics(spec: PipelineSpec, topics: Topics) -> Iterator[Problem]:
    answers: dict[str, set[str] | str] = {}
    for place, client, names in _named_topics(spec):
        servers = client["bootstrap.servers"]
        if servers not in answers:
            try:
                answers[servers] = topics.known(client)
            except HeadwaterError as error:
                answers[servers] = str(error)
                where = ("bootstrap",) if servers == spec.bootstrap else place
                yield where, f"{servers}: {error}"
        known = answers[servers]
        if isinstance(known, set):
            for name in names:
                if name not in known:
                    yield place, f"there is no topic {name}"


def _named_topics(
    spec: PipelineSpec,
) -> Iterator[tuple[Place, Mapping[str, str], Iterable[str]]]:
    """Yield topics that must exist, with their places and client settings."""
    for source in spec.sources:
        if source.is_topic:
            try:
                options = source_options(source, spec)
            except InvalidOption:
                continue
            wanted = options.subscription
            names = sorted({*wanted.topics, *(each.topic for each in wanted.partitions)})
            word = "subscribe" if wanted.topics else "assign"
            yield (*source.place, word), options.client, names
    for sink in spec.sinks:
        if sink.is_topic and sink.create is None:
            try:
                read = sink_options(sink, spec)
            except InvalidOption:
                continue
            if read.topic is not None:
                yield (*sink.place, "topic"), read.client, [read.topic]

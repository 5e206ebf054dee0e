"""Write a pipeline as a project of Spark Declarative Pipelines.

Sources and steps become temporary views, sinks become sinks with an append flow each. The project
uses Spark's own functions and `format("headwater")`, so it can be read and changed.

Note: Spark Declarative Pipelines run until all available records are processed, and only append.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from headwater.common.exceptions import HeadwaterError
from headwater.pipelines.check.step_graph import in_order
from headwater.pipelines.check.topic_options import topic_options
from headwater.pipelines.spec.pipeline_spec import (
    Coding,
    Decoding,
    Mode,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    StepSpec,
)
from headwater.pipelines.spec.sql_tables import tables_in
from headwater.spark.sink.write_stream import FIXED_ROUTES

_CONFIGURATION: Final = {
    **FIXED_ROUTES,
    "spark.sql.session.timeZone": "UTC",
}
_HEAD: Final = '''\
"""{name} as a Spark Declarative Pipeline, exported from {file}."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
'''


class NotExportable(HeadwaterError):
    """The pipeline has something that Spark Declarative Pipelines do not have."""


def declarative_pipeline(spec: PipelineSpec, storage: str) -> dict[str, str]:
    """Return the files of the project by name, or raise `NotExportable`."""
    problems = list(_problems(spec))
    if problems:
        raise NotExportable("; ".join(problems))
    blocks = [_HEAD.format(name=spec.name, file=spec.file.name)]
    blocks += [_source(source, spec) for source in spec.sources]
    blocks += [_step(step, spec) for step in in_order(spec)]
    blocks += [_sink(sink, spec) for sink in spec.sinks]
    return {
        "spark-pipeline.yml": _project(spec, storage),
        f"transformations/{spec.name}.py": "\n\n".join(blocks),
    }


def write_project(spec: PipelineSpec, folder: Path) -> list[Path]:
    """Write the project; `NotExportable` if one of its files exists."""
    storage = (folder / "pipeline-storage").resolve()
    texts = declarative_pipeline(spec, f"file://{storage}")
    found = [folder / name for name in texts]
    for file in found:
        if file.exists():
            raise NotExportable(f"{file} exists; choose another folder or remove it first")
    storage.mkdir(parents=True, exist_ok=True)
    for file, text in zip(found, texts.values(), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return found


def _problems(spec: PipelineSpec) -> Iterator[str]:
    for source in spec.sources:
        if source.connector is not None:
            yield f"the source {source.name} is a connector"
        for decoding in (source.key, source.value):
            if decoding is not None and decoding.coding is Coding.AVRO:
                yield f"the source {source.name} is Avro"
        if source.transforms:
            yield f"the source {source.name} has transforms"
        if source.is_static or source.table.name is not None:
            yield f"the source {source.name} is static or a table"
    for step in spec.steps:
        if step.sql is None and step.python is None:
            yield f"the step {step.name} is a lookup"
        if step.python is not None and step.python.file is None:
            yield f"the step {step.name} is a function of the pipeline's own file"
    for sink in spec.sinks:
        if sink.connector is not None:
            yield f"the sink {sink.name} is a connector"
        if sink.mode is not Mode.APPEND:
            yield f"the sink {sink.name} has mode {sink.mode.value}, and only append is possible"
        if sink.transforms:
            yield f"the sink {sink.name} has transforms"
        if sink.encoding is not None and sink.encoding.parts:
            yield f"the sink {sink.name} is Avro"


def _project(spec: PipelineSpec, storage: str) -> str:
    # JSON's texts are YAML's, too.
    lines = [f"name: {spec.name}", f"storage: {json.dumps(storage)}", "configuration:"]
    lines += [f"  {name}: {json.dumps(value)}" for name, value in _CONFIGURATION.items()]
    lines += ["libraries:", "  - glob:", "      include: transformations/**"]
    return "\n".join(lines) + "\n"


def _view(name: str, body: str) -> str:
    function = f"def {_identifier(name)}() -> DataFrame:\n    return {body}\n"
    return f"@dp.temporary_view(name={name!r})\n{function}"


def _source(source: SourceSpec, spec: PipelineSpec) -> str:
    reads = "read" if source.is_table else "readStream"
    if not source.is_topic:
        lines = [f"spark.readStream.format({source.format!r})"]
        if source.schema is not None:
            lines.append(f".schema({source.schema!r})")
        return _view(source.name, _chained([*lines, *_options(source.options), ".load()"], source))
    options = topic_options(spec, source.options)
    lines = [f"spark.{reads}.format('headwater')", *_options(options), ".load()"]
    if source.is_table:
        lines += [
            ".where('key is not null').groupBy('key')",
            ".agg(f.max_by(f.struct('value', 'topic', 'partition', 'offset', 'timestamp'),"
            " f.struct('offset', 'partition')).alias('newest'))",
            ".select('key', 'newest.*').where('value is not null')",
        ]
    lines += _decoded(source)
    return _view(source.name, _chained(lines, source))


def _options(options: Mapping[str, str]) -> list[str]:
    return [f".option({name!r}, {text!r})" for name, text in options.items()]


def _decoded(source: SourceSpec) -> list[str]:
    parts = {"key": source.key, "value": source.value}
    decodings = {part: each for part, each in parts.items() if each is not None}
    if not decodings:
        return []
    parsed = [
        f".withColumn('__{part}', {_parsed(part, decoding)})"
        for part, decoding in decodings.items()
    ]
    fields = [
        f"'__{part}.{field.name}'" for part, each in decodings.items() for field in each.fields
    ]
    record = "f.struct('key', 'value', 'topic', 'partition', 'offset', 'timestamp').alias('record')"
    return [*parsed, f".select({', '.join([*fields, record])})"]


def _parsed(part: str, decoding: Decoding) -> str:
    text = f"f.col({part!r}).cast('string')"
    strict = "{'mode': 'FAILFAST'}"
    match decoding.coding:
        case Coding.STRING:
            return f"f.struct({text}.alias({decoding.fields[0].name!r}))"
        case Coding.JSON:
            return f"f.from_json({text}, {decoding.schema!r}, {strict})"
        case _:
            return f"f.from_csv({text}, f.lit({decoding.schema!r}), {strict})"


def _chained(lines: list[str], what: SourceSpec | StepSpec) -> str:
    if what.watermark is not None:
        delay = f"{what.watermark.delay_ms} milliseconds"
        lines = [*lines, f".withWatermark({what.watermark.column!r}, {delay!r})"]
    inner = "\n".join(f"        {line}" for line in lines)
    return f"(\n{inner}\n    )"


def _step(step: StepSpec, spec: PipelineSpec) -> str:
    if step.sql is not None:
        return _view(step.name, _chained([f"spark.sql({_quoted(_query(step.sql, spec))})"], step))
    assert step.python is not None
    assert step.python.file is not None
    inputs = ", ".join(
        f"spark.{'read' if name in _tables(spec) else 'readStream'}.table({name!r})"
        for name in step.inputs
    )
    loaded = f"runpy.run_path({str(step.python.file)!r})[{step.python.function!r}]"
    return f"import runpy\n\n\n{_view(step.name, _chained([f'{loaded}({inputs})'], step))}"


def _query(sql: str, spec: PipelineSpec) -> str:
    """The step's query, in which names of streams are read as streams."""
    known = {each.name.lower() for each in spec.sources}
    known |= {each.name.lower() for each in spec.steps}
    tables = {each.lower() for each in _tables(spec)}
    streams = [
        name for name in tables_in(sql) if name.lower() in known and name.lower() not in tables
    ]
    if not streams:
        return sql
    ctes = ", ".join(f"{name} as (select * from stream {name})" for name in streams)
    return f"with {ctes}\nselect * from (\n{sql.strip()}\n)"


def _tables(spec: PipelineSpec) -> set[str]:
    return {source.name for source in spec.sources if source.is_table}


def _sink(sink: SinkSpec, spec: PipelineSpec) -> str:
    name = _identifier(f"{sink.name}_sink")
    options = topic_options(spec, sink.options) if sink.is_topic else dict(sink.options)
    columns = _record_columns(sink, spec) if sink.is_topic else ["'*'"]
    selected = f"spark.readStream.table({sink.source!r}).selectExpr({', '.join(columns)})"
    return (
        f"dp.create_sink({name!r}, {sink.format!r}, {options!r})\n\n\n"
        f"@dp.append_flow(target={name!r}, name={_identifier(f'{sink.name}_flow')!r})\n"
        f"def {_identifier(f'{sink.name}_flow')}() -> DataFrame:\n    return {selected}\n"
    )


def _record_columns(sink: SinkSpec, spec: PipelineSpec) -> list[str]:
    """The columns of a record, as expressions of SQL."""
    record = sink.record
    source = next((each for each in spec.sources if each.name == sink.source), None)
    is_plain = source is not None and source.is_topic and not (source.key or source.value)
    if record.value is not None:
        value = f"cast({record.value} as string)"
    elif is_plain:
        value = "value"
    else:
        every = "* except (record)" if source is not None and source.is_topic else "*"
        value = f"to_json(struct({every}))"
    if record.tombstone is not None:
        value = f"case when {record.tombstone} then null else {value} end"
    found = [f"{value} as value"]
    if record.key is not None:
        found.append(f"cast({record.key} as string) as key")
    elif is_plain:
        found.append("key")
    if record.headers:
        headers = ", ".join(
            f"named_struct('key', '{name}', 'value', cast({text} as binary))"
            for name, text in record.headers.items()
        )
        found.append(f"array({headers}) as headers")
    return [repr(each) for each in found]


def _quoted(sql: str) -> str:
    return f'"""\n{sql}\n"""' if '"""' not in sql and "\\" not in sql else repr(sql)


def _identifier(name: str) -> str:
    return "".join(each if each.isalnum() else "_" for each in name)

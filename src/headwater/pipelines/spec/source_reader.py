"""Read the sources of a pipeline's file.

The columns of a topic come from its `decode`. Without it they are those of a record (`key`,
`value`, `topic`, ...); with it they are the decoded fields and one column `record`, which holds the
rest of the record.
"""

from pathlib import Path
from typing import Final

from headwater.pipelines.spec.avro_spec import read_avro_spec
from headwater.pipelines.spec.ddl import BadSchema, DdlField, read_schema
from headwater.pipelines.spec.durations import duration_ms
from headwater.pipelines.spec.pipeline_spec import (
    HEADWATER,
    Coding,
    Decoding,
    SourceSpec,
    TableSpec,
    Watermark,
)
from headwater.pipelines.spec.section import Section
from headwater.pipelines.spec.table_reader import read_source_table
from headwater.pipelines.spec.transform_reader import read_transform_list
from headwater.spark.locations import resolved
from headwater.spark.settings_files import beside

RECORD: Final = "record"

_CODINGS: Final = {each.value: each for each in Coding}


def read_source(section: Section, name: str, folder: Path) -> SourceSpec:
    connector = section.text("connector")
    # With a connector, keys such as `format` and `table` are its options.
    chosen = HEADWATER if connector is not None else section.text("format") or HEADWATER
    is_topic = connector is None and chosen == HEADWATER
    key, value, registry = _decodings(section, folder, is_topic=is_topic)
    is_format = connector is None and not is_topic
    is_table = is_topic and section.flag("table")
    if is_format and section.raw("table") is True:
        section.add_problem("only a topic can be read as a table of its latest values", "table")
    table = read_source_table(section) if is_format else TableSpec()
    is_static = is_format and section.flag("static")
    watermark = read_watermark(section)
    if (is_table or is_static) and watermark is not None:
        section.add_problem("a table cannot have a watermark", "watermark")
    schema = None if connector is not None else _schema(section, is_topic=is_topic)
    transforms = read_transform_list(section, is_topic=is_topic, is_sink=False)
    if is_table and transforms:
        section.add_problem("a table cannot have transforms: use a step", "transforms")
    options = section.rest()
    if connector is None and not is_topic and "path" in options:
        options["path"] = resolved(options["path"], folder)
    if is_topic:
        options = beside(options, folder)
    return SourceSpec(
        name=name,
        place=section.place,
        format=chosen,
        connector=connector,
        options=options,
        schema=schema,
        key=key,
        value=value,
        registry=registry,
        watermark=watermark,
        is_table=is_table,
        is_static=is_static,
        table=table,
        transforms=transforms,
    )


def read_watermark(section: Section) -> Watermark | None:
    inner = section.inner("watermark")
    if inner is None:
        return None
    names = inner.names()
    if len(names) != 1:
        inner.add_problem("watermark must be one column with a duration, such as {ts: 10 minutes}")
        return None
    column = names[0]
    text = inner.text(column)
    delay_ms = None if text is None else duration_ms(text)
    if delay_ms is None:
        inner.add_problem(f"the watermark of {column} must be a time such as 10 minutes", column)
        return None
    return Watermark(column=column, delay_ms=delay_ms)


def _decodings(
    section: Section, folder: Path, *, is_topic: bool
) -> tuple[Decoding | None, Decoding | None, str | None]:
    inner = section.inner("decode")
    if inner is None:
        return None, None, None
    if not is_topic:
        section.add_problem(
            "decode is for topics only; a format or connector has its own schema", "decode"
        )
    key, value = _decoding(inner, "key", folder), _decoding(inner, "value", folder)
    registry = inner.text("registry")
    inner.report_unknown()
    for text in clashes(key, value):
        inner.add_problem(text)
    return key, value, registry


def clashes(key: Decoding | None, value: Decoding | None) -> list[str]:
    """Add problems of column names."""
    names = [each.name.lower() for decoding in (key, value) if decoding for each in decoding.fields]
    found = [
        f"the column {name} comes from the key and from the value"
        for name in sorted(set(names))
        if names.count(name) > 1
    ]
    if RECORD in names:
        found.append(f"no column can be called {RECORD}: that is what the record itself is")
    return found


def _decoding(section: Section, part: str, folder: Path) -> Decoding | None:
    value = section.raw(part)
    if value is None:
        return None
    if value == Coding.STRING.value:
        return _string(part)
    if value == Coding.AVRO.value or (
        isinstance(value, dict) and list(value) == [Coding.AVRO.value]
    ):
        avro = read_avro_spec(section, part, folder)
        return Decoding(coding=Coding.AVRO, schema="", fields=(), avro=avro)
    if not isinstance(value, dict) or len(value) != 1:
        known = ", ".join(_CODINGS)
        section.add_problem(
            f"{part} is decoded by one of {known}, such as {{json: 'id bigint'}}", part
        )
        return None
    word, schema = next(iter(value.items()))
    coding = _CODINGS.get(word)
    if coding is None:
        section.add_problem(f"unknown encoding {word}; there are {', '.join(_CODINGS)}", part, word)
        return None
    if not isinstance(schema, str):
        section.add_problem(f"{word} must be followed by a string, not {schema!r}", part, word)
        return None
    if coding is Coding.STRING:
        return _string(schema)
    try:
        fields = read_schema(schema)
    except BadSchema as error:
        section.add_problem(str(error), part, word)
        return None
    return Decoding(coding=coding, schema=schema, fields=fields)


def _string(name: str) -> Decoding:
    field = DdlField(name=name, kind="string")
    return Decoding(coding=Coding.STRING, schema=f"`{name}` string", fields=(field,))


def _schema(section: Section, *, is_topic: bool) -> str | None:
    text = section.text("schema")
    if text is None:
        return None
    if is_topic:
        section.add_problem("a topic has no schema; decode its key and value", "schema")
        return None
    try:
        read_schema(text)
    except BadSchema as error:
        section.add_problem(str(error), "schema")
    return text

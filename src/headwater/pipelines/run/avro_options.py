"""Avro options of a pipeline's sources and sinks; columns from the registry."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.client.serialization.schema_registry_settings import URL
from headwater.pipelines.check.topic_options import topic_options
from headwater.pipelines.spec.ddl import DdlField
from headwater.pipelines.spec.pipeline_spec import Decoding, PipelineSpec, SinkSpec, SourceSpec
from headwater.schemas.avro.resolved_schema import Schema
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import (
    AUTO_REGISTER,
    USE_LATEST,
    AvroOptions,
    RegistryAccess,
    SubjectNaming,
    registry_access,
)
from headwater.spark.formats.avro.column_types import column_type, ddl
from headwater.spark.formats.avro.reader_schema import reader_schema
from headwater.spark.formats.avro.schema_text import schema_text
from headwater.spark.settings_files import SETTINGS_FILE, settings_in

NO_REGISTRY = "Avro needs a schema registry: set registry, such as http://127.0.0.1:8081"


def source_avro(source: SourceSpec, spec: PipelineSpec) -> dict[str, AvroOptions]:
    """Return a source's Avro options. Raises `InvalidOption` without a registry."""
    found = {}
    for part, decoding in (("key", source.key), ("value", source.value)):
        if decoding is not None and decoding.avro is not None:
            registry = source_registry(source, spec)
            if registry is None:
                raise InvalidOption(NO_REGISTRY)
            avro = decoding.avro
            found[part] = AvroOptions(
                part=part,
                registry=registry,
                schema=avro.schema,
                subject=avro.subject,
                naming=SubjectNaming(avro.strategy or SubjectNaming.TOPIC.value),
            )
    return found


def source_registry(source: SourceSpec, spec: PipelineSpec) -> RegistryAccess | None:
    """Return the registry of a source, with the client settings of its brokers."""
    return registry_access(_file_of(source.options, spec), source.registry or spec.registry)


def _file_of(options: Mapping[str, str], spec: PipelineSpec) -> dict[str, str]:
    """Return the settings in the file that the options of a topic name."""
    given = {name.lower(): text for name, text in topic_options(spec, options).items()}
    file = given.get(SETTINGS_FILE.lower())
    return settings_in(file) if file else {}


def sink_avro(sink: SinkSpec, spec: PipelineSpec) -> dict[str, str]:
    """Return the additional options of a sink that writes Avro."""
    encoding = sink.encoding
    if encoding is None or not encoding.parts:
        return {}
    registry = registry_access(_file_of(sink.options, spec), encoding.registry or spec.registry)
    if registry is None:
        raise InvalidOption(NO_REGISTRY)
    found = {
        URL: registry.url,
        AUTO_REGISTER: str(encoding.register).lower(),
        USE_LATEST: str(encoding.latest).lower(),
    }
    for part, avro in encoding.parts.items():
        found[f"{part}Format"] = "avro"
        given = {"Schema": avro.schema, "Subject": avro.subject}
        found |= {part + name: text for name, text in given.items() if text is not None}
        if avro.strategy is not None:
            found[f"{part}.subject.name.strategy"] = avro.strategy
    return found


def with_columns(source: SourceSpec, spec: PipelineSpec, topic: str | None) -> SourceSpec:
    """Return the source with the columns of its current schemas in the registry."""
    for part, options in source_avro(source, spec).items():
        source = with_schema(source, part, reader_schema(options, topic))
    return source


def with_schema(source: SourceSpec, part: str, schema: Schema) -> SourceSpec:
    """Return columns of a key or value; a schema that is not a record is one column."""
    kind: Any = column_type(schema, part)
    fields = (
        tuple(DdlField(name=each.name, kind=ddl(each.type)) for each in kind.fields)
        if pa.types.is_struct(kind)
        else (DdlField(name=part, kind=ddl(kind)),)
    )
    former: Decoding | None = source.key if part == "key" else source.value
    assert former is not None, "only what is decoded has a schema"
    decoding = replace(former, schema=schema_text(schema), fields=fields)
    return replace(source, key=decoding) if part == "key" else replace(source, value=decoding)

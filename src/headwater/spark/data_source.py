"""The data source `format("headwater")` with its source and sink.

Spark creates an instance in a Python process of its own, not the user's, for each question about a
query. So the constructor must be cheap, and its exceptions are shown to the user.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.arrow_types import arrow_type
from headwater.spark.formats.json.json_types import check_nullable, json_type
from headwater.spark.formats.typed_values import (
    AvroColumn,
    JsonColumn,
    ProtobufColumn,
    TypedColumn,
)
from headwater.spark.formats.value_formats import (
    ValueFormat,
    check_has_schema,
    names_registry_format,
    parts_with,
)
from headwater.spark.sink import row_encoder
from headwater.spark.sink.sink_options import SinkOptions, read_sink_options
from headwater.spark.source import row_decoder
from headwater.spark.source.source_options import (
    RowType,
    SourceOptions,
    read_registry_source,
    read_source_options,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class HeadwaterSource(DataSource):
    """Topics as tables."""

    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> "StructType | str":
        check_has_schema(self.options)
        if self.options.get("rowtype", "").lower() == RowType.BATCH.value:
            return row_decoder.BATCH_COLUMNS
        has_headers = self.options.get("includeheaders", "").lower() == "true"
        if names_registry_format(self.options):
            from headwater.spark.formats.avro.source_columns import columns_of

            avro, formats, subscription = read_registry_source(self.options)
            topic = subscription.only_topic
            return columns_of(avro, topic, has_headers=has_headers, formats=formats)
        if has_headers:
            return f"{row_decoder.COLUMNS}, {row_decoder.HEADERS}"
        return row_decoder.COLUMNS

    def reader(self, schema: "StructType") -> DataSourceReader:
        from headwater.spark.source.readers import RowShape, TopicReader

        options = read_source_options(self.options, is_streaming=False)
        return TopicReader(options, RowShape(*_checked(schema, options)))

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802
        from headwater.spark.source.readers import RowShape, TopicStreamReader

        options = read_source_options(self.options, is_streaming=True)
        return TopicStreamReader(options, RowShape(*_checked(schema, options)))

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        from headwater.spark.sink.writers import TopicWriter

        if overwrite:
            raise InvalidOption("a topic cannot be overwritten: use mode append")
        return TopicWriter(self._sink_options(schema, is_streaming=False))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        from headwater.spark.sink.writers import TopicStreamWriter

        return TopicStreamWriter(self._sink_options(schema, is_streaming=True))

    def _sink_options(self, schema: "StructType", *, is_streaming: bool) -> SinkOptions:
        # Imported only for writes, because it imports the whole client.
        from headwater.spark.sink.sink_topics import check_topics_exist

        options = read_sink_options(self.options, is_streaming=is_streaming)
        check_writable(schema, options)
        check_topics_exist(options)
        return with_targets(schema, options)


def check_writable(schema: "StructType", options: SinkOptions) -> None:
    """Raise `WrongColumns` if rows of a schema cannot be written with these options."""
    row_encoder.check_columns(_columns(schema), options.topic, options.formats)
    _typed(schema, options.formats)


def with_targets(schema: "StructType", options: SinkOptions) -> SinkOptions:
    """Return the options with the registered schemas of Avro and Protobuf columns."""
    if not options.avro:
        return options
    from headwater.spark.formats.avro.sink_schema import targets_of

    protobuf = parts_with(options.formats, ValueFormat.PROTOBUF)
    avro = {part: each for part, each in options.avro.items() if part not in protobuf}
    targets = targets_of(schema, avro, options.topic) if avro else {}
    if protobuf:
        from headwater.spark.formats.protobuf import sink_schema

        chosen = {part: options.avro[part] for part in protobuf}
        targets = {**targets, **sink_schema.targets_of(schema, chosen, options.topic)}
    return replace(options, targets=targets)


def _columns(schema: "StructType") -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _typed(schema: "StructType", formats: Mapping[str, ValueFormat]) -> dict[str, pa.DataType]:
    """Return the types of JSON columns, if JSON supports them."""
    named = parts_with(formats, ValueFormat.JSON)
    return {
        field.name: json_type(field.dataType, field.name)
        for field in schema.fields
        if field.name in named
    }


def _checked(
    schema: "StructType", options: SourceOptions
) -> tuple[dict[str, str], dict[str, TypedColumn]]:
    """Return the requested columns in order, and which of them are typed."""
    columns = _columns(schema)
    if options.row_type is RowType.BATCH:
        return columns, {}
    for field in schema.fields:
        if field.name in options.formats:
            check_nullable(field.dataType, field.name)
    typed: dict[str, TypedColumn] = {
        name: JsonColumn(kind, options.is_lenient)
        for name, kind in _typed(schema, options.formats).items()
    }
    typed.update(_registry_columns(schema, options))
    row_decoder.check_columns({name: kind for name, kind in columns.items() if name not in typed})
    return columns, typed


def _registry_columns(schema: "StructType", options: SourceOptions) -> dict[str, TypedColumn]:
    if not options.avro:
        return {}
    from headwater.spark.formats.avro.source_columns import column_schema
    from headwater.spark.formats.protobuf.reader_schema import column_reader

    topic = options.subscription.only_topic
    found: dict[str, TypedColumn] = {}
    for field in schema.fields:
        chosen = options.avro.get(field.name)
        if chosen is None:
            continue
        if options.formats[field.name] is ValueFormat.PROTOBUF:
            found[field.name] = ProtobufColumn(
                registry=chosen.registry,
                schema=column_reader(field, chosen, topic),
                kind=arrow_type(field.dataType, field.name),
                is_lenient=options.is_lenient,
            )
        else:
            found[field.name] = AvroColumn(
                registry=chosen.registry,
                schema=column_schema(field, chosen, topic),
                is_lenient=options.is_lenient,
            )
    return found

"""`format("headwater")`: where Spark finds the source and the sink.

What a reader would get wrong: Spark makes one of these in a Python process of its own, far from the
user's, for each question about a query. It must be cheap, and whatever it refuses is what the user
reads in the end.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from headwater.pipeline import incoming_rows, outgoing_rows
from headwater.pipeline.failures import OptionRefused
from headwater.pipeline.json_types import json_type, refuse_not_null
from headwater.pipeline.sink_options import SinkOptions, read_sink_options
from headwater.pipeline.source_options import RowType, SourceOptions, read_source_options
from headwater.pipeline.typed_values import JsonColumn
from headwater.pipeline.value_formats import ValueFormat, refuse_without_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class HeadwaterSource(DataSource):
    """Topics as tables."""

    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> str:
        refuse_without_schema(self.options)
        if self.options.get("rowtype", "").lower() == RowType.BATCH.value:
            return incoming_rows.BATCH_COLUMNS
        if self.options.get("includeheaders", "").lower() == "true":
            return f"{incoming_rows.COLUMNS}, {incoming_rows.HEADERS}"
        return incoming_rows.COLUMNS

    def reader(self, schema: "StructType") -> DataSourceReader:
        from headwater.pipeline.readers import RowShape, TopicReader

        options = read_source_options(self.options, is_streaming=False)
        return TopicReader(options, RowShape(*_checked(schema, options)))

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802
        from headwater.pipeline.readers import RowShape, TopicStreamReader

        options = read_source_options(self.options, is_streaming=True)
        return TopicStreamReader(options, RowShape(*_checked(schema, options)))

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        from headwater.pipeline.writers import TopicWriter

        if overwrite:
            raise OptionRefused("a topic cannot be overwritten: use mode append")
        return TopicWriter(self._sink_options(schema, is_streaming=False))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        from headwater.pipeline.writers import TopicStreamWriter

        return TopicStreamWriter(self._sink_options(schema, is_streaming=True))

    def _sink_options(self, schema: "StructType", *, is_streaming: bool) -> SinkOptions:
        # Loaded where something is written only: it brings the whole client.
        from headwater.pipeline.sink_topics import refuse_missing_topics

        options = read_sink_options(self.options, is_streaming=is_streaming)
        refuse_unwritable(schema, options)
        refuse_missing_topics(options)
        return options


def refuse_unwritable(schema: "StructType", options: SinkOptions) -> None:
    """`WrongColumns` where rows of a schema cannot be written as the options say."""
    outgoing_rows.refuse_columns(_columns(schema), options.topic, options.formats)
    _typed(schema, options.formats)


def _columns(schema: "StructType") -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _typed(schema: "StructType", formats: Mapping[str, ValueFormat]) -> dict[str, pa.DataType]:
    """The types of columns that have a format, if it has such types."""
    return {
        field.name: json_type(field.dataType, field.name)
        for field in schema.fields
        if field.name in formats
    }


def _checked(
    schema: "StructType", options: SourceOptions
) -> tuple[dict[str, str], dict[str, JsonColumn]]:
    """The columns that a query wants, in their order, and which of them are typed."""
    columns = _columns(schema)
    if options.row_type is RowType.BATCH:
        return columns, {}
    for field in schema.fields:
        if field.name in options.formats:
            refuse_not_null(field.dataType, field.name)
    typed = {
        name: JsonColumn(kind, options.is_lenient)
        for name, kind in _typed(schema, options.formats).items()
    }
    incoming_rows.refuse_columns(
        {name: kind for name, kind in columns.items() if name not in typed}
    )
    return columns, typed

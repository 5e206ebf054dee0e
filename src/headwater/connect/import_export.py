"""Import rows into topics and export topics as rows, as JSON or Avro.

One column is the key.

    import_rows(spark, "postgresql", {...}, topic="orders", key="id", ...)
    export_rows(spark, "files", {...}, topic="orders", schema="id bigint, name string", ...)

Note: a tombstone deletes the row with its key. With a key column, sinks receive such rows with
`__deleted` set; without one, tombstones are skipped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.connect.connector import Source
from headwater.connect.connector_properties import (
    ConnectorProperties,
    read_connector_properties,
)
from headwater.connect.connector_registry import open_sink, open_source
from headwater.connect.postgresql_connector import DELETED
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import known_schemas
from headwater.spark.locations import below
from headwater.spark.settings_files import SETTINGS_FILE
from headwater.spark.sink.sink_options import read_sink_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How a connector's query runs."""

    checkpoint: str
    # Process what is there and stop; otherwise run at this interval, in Spark's notation.
    once: bool = True
    every: str = "5 seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroValues:
    """Values are Avro with schemas in a registry; otherwise they are JSON."""

    registry: str
    # Default: the topic's subject.
    subject: str | None = None
    # Schema to read or write with.
    schema: str | None = None

    def options(self) -> dict[str, str]:
        """Options of the Spark source or sink."""
        given = {"valueSubject": self.subject, "valueSchema": self.schema}
        return {
            "valueFormat": "avro",
            "schema.registry.url": self.registry,
            **{name: text for name, text in given.items() if text is not None},
        }


def import_rows(
    spark: "SparkSession",
    connector: str,
    options: Mapping[str, str],
    *,
    bootstrap_servers: str,
    topic: str,
    key: str | None = None,
    running: Running,
    avro: AvroValues | None = None,
    settings_file: Path | str | None = None,
) -> "StreamingQuery":
    """Start a query that writes a connector's rows to a topic, exactly once.

    `options` may have transforms and `errors.tolerance`, as in Kafka Connect. `settings_file` has
    client settings for brokers and registry, such as credentials.
    """
    from pyspark.sql import functions

    from headwater.connect.record_transforms import transformed_import
    from headwater.spark.data_source import with_targets

    properties = read_connector_properties(options, is_sink=False)
    source = open_source(connector, properties.options)
    check_own_keys(source, connector, key, is_avro=avro is not None)
    reader = spark.readStream.format("headwater-connect")
    rows = _with(reader, connector, properties.options).load()
    topics = {"markerTopic": source.topics()[0]} if source.writes_records else {"topic": topic}
    if source.writes_records:
        records = rows
    else:
        check_key(key, rows.columns)
        row = functions.struct("*")
        is_text = avro is None and properties.is_plain
        value = functions.to_json(row, {"ignoreNullFields": "false"}) if is_text else row
        columns = [value.alias("value")]
        if key is not None:
            columns.append(functions.col(key).cast("string").alias("key"))
        records = rows.select(*columns)
    if not properties.is_plain:
        named = None if source.writes_records else topic
        records, routed = transformed_import(records, named, properties, is_avro=avro is not None)
        topics = routed or topics
    sink = {
        "kafka.bootstrap.servers": bootstrap_servers,
        **topics,
        "delivery": "exactly-once",
        **_settings_option(settings_file),
        **({} if avro is None else avro.options()),
    }
    chosen = with_targets(records.schema, read_sink_options(sink, is_streaming=True))
    writer = records.writeStream.format("headwater")
    return _start(writer.options(**known_schemas(sink, chosen.targets)), running)


def export_rows(
    spark: "SparkSession",
    connector: str,
    options: Mapping[str, str],
    *,
    bootstrap_servers: str,
    topic: str,
    schema: str | None = None,
    key: str | None = None,
    running: Running,
    avro: AvroValues | None = None,
    settings_file: Path | str | None = None,
) -> "StreamingQuery":
    """Start a query that writes a topic's records to a connector.

    `options` may have transforms and `errors.tolerance`, as in Kafka Connect; a dead-letter topic
    and a log of errors need `export_queries`. JSON needs a `schema` with the columns in Spark's
    DDL. Avro takes the columns from the registry. A sink for records, such as those of a change
    feed, takes neither. `topic` may be several, separated by commas. `settings_file` has client
    settings, such as credentials.
    """
    properties = read_connector_properties(options, is_sink=True)
    if properties.errors.logs or properties.errors.dead_letter_topic is not None:
        raise InvalidOption("a dead letter queue and a log of errors need export_queries")
    export = _Export(
        connector=connector,
        properties=properties,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        schema=schema,
        key=key,
        running=running,
        avro=avro,
        settings_file=settings_file,
    )
    return export.start(spark)


def export_queries(
    spark: "SparkSession",
    connector: str,
    options: Mapping[str, str],
    *,
    bootstrap_servers: str,
    topic: str,
    schema: str | None = None,
    key: str | None = None,
    running: Running,
    avro: AvroValues | None = None,
    settings_file: Path | str | None = None,
) -> "list[StreamingQuery]":
    """Start an export, and the queries that log its errors and write its dead letters.

    The first query is the export. Each of the others reads the topic once more.
    """
    export = _Export(
        connector=connector,
        properties=read_connector_properties(options, is_sink=True),
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        schema=schema,
        key=key,
        running=running,
        avro=avro,
        settings_file=settings_file,
    )
    export.check()
    return [export.start(spark), *export.start_errors(spark)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """Everything that the queries of an export need."""

    connector: str
    properties: ConnectorProperties
    bootstrap_servers: str
    topic: str
    schema: str | None
    key: str | None
    running: Running
    avro: AvroValues | None
    settings_file: Path | str | None

    def check(self) -> None:
        """Raise `InvalidOption` if these options do not go together."""
        connector, options = self.connector, self.properties.options
        reads_records = open_sink(connector, options).reads_records
        has_format = self.schema is not None or self.avro is not None
        if reads_records and (has_format or self.key is not None):
            raise InvalidOption(
                f"{connector} takes records as they are: no schema, registry or key"
            )
        if not reads_records and (self.schema is None) == (self.avro is None):
            raise InvalidOption("set either a schema (for JSON) or a registry (for Avro)")
        if self.properties.errors.dead_letter_topic is not None and self.avro is not None:
            raise InvalidOption("a dead letter queue needs JSON values or records as they are")

    def start(self, spark: "SparkSession") -> "StreamingQuery":
        """Start the query that writes to the connector."""
        self.check()
        reads_records = open_sink(self.connector, self.properties.options).reads_records
        records = self._records(spark)
        if not self.properties.is_plain:
            from headwater.connect.record_transforms import export_source, transformed_export

            source = export_source(self.topic, self.schema, self.properties)
            records = transformed_export(records, source, self.properties)
        if reads_records:
            rows = records
        elif self.schema is None or not self.properties.is_plain:
            rows = decoded_rows(records, self.key)
        else:
            rows = rows_of(records, self.schema, self.key)
        writer = rows.writeStream.format("headwater-connect")
        return _start(_with(writer, self.connector, self.properties.options), self.running)

    def start_errors(self, spark: "SparkSession") -> "list[StreamingQuery]":
        """Start the queries that log errors and write dead letters."""
        from headwater.connect import record_transforms
        from headwater.pipelines.run.dead_letters import failed_records
        from headwater.spark.sink.write_stream import topic_writer

        errors, found = self.properties.errors, []
        source = record_transforms.export_source(self.topic, self.schema, self.properties)
        if errors.logs:
            failed = failed_records(self._records(spark), source, None)
            if failed is not None:

                def log(rows: "DataFrame", _batch_id: int) -> None:
                    record_transforms.log_failures(
                        rows, self.connector, with_messages=errors.logs_messages
                    )

                writer: Any = failed.writeStream.foreachBatch(log)
                found.append(_start(writer, self._beside("log")))
        if errors.dead_letter_topic is not None:
            letters = record_transforms.dead_letter_records(
                self._records(spark), source, self.properties, self.connector
            )
            if letters is not None:
                options = {
                    "kafka.bootstrap.servers": self.bootstrap_servers,
                    "topic": errors.dead_letter_topic,
                    "delivery": "exactly-once",
                    **_settings_option(self.settings_file),
                }
                writer = topic_writer(letters, options, "append")
                found.append(_start(writer, self._beside("dead-letters")))
        return found

    def _beside(self, name: str) -> Running:
        """Return how a further query runs, with a checkpoint of its own."""
        return replace(self.running, checkpoint=below(self.running.checkpoint, f"_{name}"))

    def _records(self, spark: "SparkSession") -> "DataFrame":
        reads_records = open_sink(self.connector, self.properties.options).reads_records
        has_headers = reads_records or not self.properties.is_plain
        return (
            spark.readStream.format("headwater")
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("kafka.isolation.level", "read_committed")
            .options(**_settings_option(self.settings_file))
            .options(**({} if self.avro is None else self.avro.options()))
            .options(**({"includeHeaders": "true"} if has_headers else {}))
            .load()
        )


def _settings_option(settings_file: Path | str | None) -> dict[str, str]:
    return {} if settings_file is None else {SETTINGS_FILE: str(Path(settings_file).resolve())}


def check_own_keys(source: Source, connector: str, key: str | None, *, is_avro: bool) -> None:
    """Raise if a source that writes records is given a key or a format for them."""
    if source.writes_records and (key is not None or is_avro):
        what = "format avro" if key is None else f"key {key}"
        raise InvalidOption(f"{connector} writes records with keys and JSON of its own: no {what}")


def check_key(key: str | None, columns: Sequence[str]) -> None:
    """Raise if the key column does not exist."""
    if key is not None and key not in columns:
        raise InvalidOption(f"the key column {key} is not among {', '.join(columns)}")


def rows_of(records: "DataFrame", schema: str, key: str | None) -> "DataFrame":
    """Parse JSON values into columns; a value that does not parse stops the query."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    types = StructType.fromDDL(schema)
    if not isinstance(types, StructType):
        raise InvalidOption(
            f"schema must list columns, such as: id bigint, name string; not {schema}"
        )
    parsed = functions.from_json(functions.col("value").cast("string"), types, {"mode": "FAILFAST"})
    return _columns(records, parsed, types, key)


def decoded_rows(records: "DataFrame", key: str | None) -> "DataFrame":
    """Turn decoded values into columns."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    types = records.schema["value"].dataType
    if not isinstance(types, StructType):
        raise InvalidOption(
            f"only values with fields can become rows, these are of type {types.simpleString()}"
        )
    return _columns(records, functions.col("value"), types, key)


def _columns(
    records: "DataFrame", parsed: "Column", types: "StructType", key: str | None
) -> "DataFrame":
    from pyspark.sql import functions

    check_key(key, types.names)
    columns = [
        functions.coalesce(
            parsed[name], functions.col("key").cast("string").cast(types[name].dataType)
        ).alias(name)
        if name == key
        else parsed[name].alias(name)
        for name in types.names
    ]
    if key is None:
        return records.where("value is not null").select(*columns)
    return records.select(*columns, functions.col("value").isNull().alias(DELETED))


def _with(builder: Any, connector: str, options: Mapping[str, str]) -> Any:
    builder = builder.option("connector", connector)
    for name, value in options.items():
        builder = builder.option(name, value)
    return builder


def _start(writer: Any, running: Running) -> "StreamingQuery":
    writer = writer.option("checkpointLocation", running.checkpoint)
    trigger = {"availableNow": True} if running.once else {"processingTime": running.every}
    started: StreamingQuery = writer.trigger(**trigger).start()
    return started

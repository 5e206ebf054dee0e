"""Rows into topics, and topics into rows: JSON objects or Avro as values, a column as key.

    import_rows(spark, "postgresql", {...}, topic="orders", key="id", ...)
    export_rows(spark, "files", {...}, topic="orders", schema="id bigint, name string", ...)

What a reader would get wrong: a record without a value is a deletion, of the row with that key. A
sink that has a key and the column for it gets such rows with `__deleted`; others do not get them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.connect.postgresql_connector import DELETED
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import known_schemas
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
    # Ends when all is done that is there now; else every so often, as Spark says it.
    once: bool = True
    every: str = "5 seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroValues:
    """Values are Avro, with their schemas in a registry; else they are JSON."""

    registry: str
    # That of the topic, if it is not given.
    subject: str | None = None
    # The text of a schema: to read with, or to write with.
    schema: str | None = None

    def options(self) -> dict[str, str]:
        """Of the source, or of the sink."""
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
    """Rows of a connector into a topic, exactly once.

    `settings_file` has settings of clients, of brokers and of a registry, such as those of a login.
    """
    from pyspark.sql import functions

    from headwater.spark.data_source import with_targets

    rows = _with(spark.readStream.format("headwater-connect"), connector, options).load()
    expect_key(key, rows.columns)
    row = functions.struct("*")
    value = functions.to_json(row, {"ignoreNullFields": "false"}) if avro is None else row
    columns = [value.alias("value")]
    if key is not None:
        columns.append(functions.col(key).cast("string").alias("key"))
    records = rows.select(*columns)
    sink = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "topic": topic,
        "delivery": "exactly-once",
        **_named(settings_file),
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
    """Records of a topic into a connector.

    JSON needs a `schema`, which has the columns as Spark's DDL says them. Avro has the columns that
    the registry says. `settings_file` has settings of clients, such as those of a login.
    """
    if (schema is None) == (avro is None):
        raise InvalidOption("JSON needs a schema with the columns, and Avro a registry: which one?")
    records = (
        spark.readStream.format("headwater")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .options(**_named(settings_file))
        .options(**({} if avro is None else avro.options()))
        .load()
    )
    rows = avro_rows(records, key) if schema is None else rows_of(records, schema, key)
    writer = rows.writeStream.format("headwater-connect")
    return _start(_with(writer, connector, options), running)


def _named(settings_file: Path | str | None) -> dict[str, str]:
    return {} if settings_file is None else {SETTINGS_FILE: str(Path(settings_file).resolve())}


def expect_key(key: str | None, columns: Sequence[str]) -> None:
    """Refuse a key that there is not."""
    if key is not None and key not in columns:
        raise InvalidOption(f"the key column {key} is not among {', '.join(columns)}")


def rows_of(records: "DataFrame", schema: str, key: str | None) -> "DataFrame":
    """The objects in the values of records; one that does not parse stops the query."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    kinds = StructType.fromDDL(schema)
    if not isinstance(kinds, StructType):
        raise InvalidOption(f"schema has columns, as in: id bigint, name string; not {schema}")
    parsed = functions.from_json(functions.col("value").cast("string"), kinds, {"mode": "FAILFAST"})
    return _columns(records, parsed, kinds, key)


def avro_rows(records: "DataFrame", key: str | None) -> "DataFrame":
    """The records of Avro in the values of records, which the source has read already."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    kinds = records.schema["value"].dataType
    if not isinstance(kinds, StructType):
        raise InvalidOption(
            f"only records of Avro become rows, and the schema has {kinds.simpleString()}"
        )
    return _columns(records, functions.col("value"), kinds, key)


def _columns(
    records: "DataFrame", parsed: "Column", kinds: "StructType", key: str | None
) -> "DataFrame":
    from pyspark.sql import functions

    expect_key(key, kinds.names)
    columns = [
        functions.coalesce(
            parsed[name], functions.col("key").cast("string").cast(kinds[name].dataType)
        ).alias(name)
        if name == key
        else parsed[name].alias(name)
        for name in kinds.names
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

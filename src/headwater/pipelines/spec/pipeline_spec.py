"""The values that describe a pipeline after its file was read.

A source with `is_table` is a changelog read as a table: the latest value of each key, read again
with every batch of the streams that are joined with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from headwater.pipelines.spec.ddl import DdlField
from headwater.pipelines.spec.document import Place
from headwater.spark.transforms.transform_config import TransformSpec

HEADWATER: Final = "headwater"


class Coding(Enum):
    """How the bytes of a key or value are decoded."""

    STRING = "string"
    JSON = "json"
    CSV = "csv"
    # By schemas in a registry.
    AVRO = "avro"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSpec:
    """The schema of a key or value; by default the latest of the usual subject."""

    # The schema itself, from the pipeline file or another file.
    schema: str | None = None
    subject: str | None = None
    strategy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What a sink writes as Avro (`key`, `value`), and how schemas are registered."""

    parts: Mapping[str, AvroSpec]
    registry: str | None = None
    register: bool = True
    latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How a record's key or value is decoded."""

    coding: Coding
    # Columns of JSON and CSV: the DDL string, and the parsed fields.
    schema: str
    # Those of Avro come from the registry.
    fields: tuple[DdlField, ...]
    avro: AvroSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The event time column, and how late events may be."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """A partition column of a table, or a transform of one such as `day`."""

    column: str
    transform: str = "identity"
    # Of `bucket` and `truncate`.
    width: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """How changes are merged into a table (see Spark's `create_auto_cdc_flow`)."""

    keys: tuple[str, ...]
    # An expression that orders the changes of a key; the offset of the record if there is one.
    sequence_by: str | None = None
    # A condition: where it is true, the change deletes the row of its key.
    apply_as_deletes: str | None = None
    except_column_list: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The table or files that a sink writes."""

    # Name of the table; None if it is given by its path.
    name: str | None = None
    # Iceberg catalog: its properties, or its `name` in PyIceberg's configuration.
    catalog: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[PartitionField, ...] = ()
    # Maximum number of files per batch, or per batch and partition.
    files: int | None = None
    merge: MergeSpec | None = None
    schema_evolution: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """A source of rows."""

    name: str
    place: Place
    format: str = HEADWATER
    connector: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    # Of files; topics have a decoding instead.
    schema: str | None = None
    key: Decoding | None = None
    value: Decoding | None = None
    # None for the pipeline's registry.
    registry: str | None = None
    watermark: Watermark | None = None
    is_table: bool = False
    # Read completely, to be joined with streams.
    is_static: bool = False
    # The table of a format that has tables, and its catalog.
    table: TableSpec = field(default_factory=TableSpec)
    # Of records, after they were decoded.
    transforms: tuple[TransformSpec, ...] = ()

    @property
    def is_topic(self) -> bool:
        return self.connector is None and self.format == HEADWATER


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStep:
    """A function in a file beside the pipeline's, or in the pipeline's own."""

    file: Path | None
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSpec:
    """A join of a stream with a changelog, whose latest values Spark keeps as state."""

    stream: str
    table: str
    # Columns of the stream, and the columns of the table's key that they must equal.
    on: Mapping[str, str]
    is_inner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """A step: SQL, a function of data frames, or a lookup in a table."""

    name: str
    place: Place
    inputs: tuple[str, ...]
    sql: str | None = None
    python: PythonStep | None = None
    lookup: LookupSpec | None = None
    watermark: Watermark | None = None


class Mode(Enum):
    """Spark's output mode: the rows of a result that a batch writes."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a sink runs batches; without an interval it ends when all data is read."""

    every_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicSpec:
    """How to create a missing topic."""

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpec:
    """How a row becomes a record: expressions of SQL, each of them optional."""

    key: str | None = None
    value: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # If true, the record is a tombstone.
    tombstone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """A sink of rows."""

    name: str
    place: Place
    source: str
    format: str = HEADWATER
    connector: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = Mode.APPEND
    trigger: Trigger = field(default_factory=Trigger)
    record: RecordSpec = field(default_factory=RecordSpec)
    encoding: Encoding | None = None
    create: NewTopicSpec | None = None
    table: TableSpec = field(default_factory=TableSpec)
    # Of records, before they are encoded.
    transforms: tuple[TransformSpec, ...] = ()

    @property
    def is_topic(self) -> bool:
        return self.connector is None and self.format == HEADWATER


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """How often a failed sink is restarted."""

    # Failures without a batch in between.
    max_count: int = 5
    backoff_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    file: Path
    name: str
    # A local path, or a location with a scheme.
    checkpoint: str
    sources: tuple[SourceSpec, ...]
    steps: tuple[StepSpec, ...]
    sinks: tuple[SinkSpec, ...]
    bootstrap: str | None = None
    registry: str | None = None
    # A file of client settings, for brokers and registry.
    settings: Path | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    restarts: Restarts = field(default_factory=Restarts)
    dead_letter: str | None = None
    # Whether offsets are committed to consumer groups, for tools that show lag.
    commits_offsets: bool = True
    # Whether a run ends when all available data is written.
    is_batch: bool = False
    # Whether a run reads from given offsets to given offsets, under its own name.
    is_bounded: bool = False
    # Functions of the pipeline's own file, if that is Python.
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict, compare=False)

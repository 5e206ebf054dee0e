"""Build the frames of a pipeline's sources and steps.

Nothing runs here: Spark only plans. Each sink's query later runs everything between the sink and
its sources.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.sql import functions as f

from headwater.pipelines.check.connector_port import Connectors
from headwater.pipelines.check.pipeline_check import source_options
from headwater.pipelines.check.step_graph import in_order
from headwater.pipelines.check.topic_options import topic_options
from headwater.pipelines.metrics.progress_totals import BYTES, COUNT, DEAD_LETTERS, INPUT
from headwater.pipelines.run.avro_options import source_registry, with_columns
from headwater.pipelines.run.dead_letters import dead_letters
from headwater.pipelines.run.lookup_join import lookup_join
from headwater.pipelines.run.source_decoder import decode, latest_per_key
from headwater.pipelines.spec.document import fail_parsing
from headwater.pipelines.spec.pipeline_spec import (
    PipelineSpec,
    PythonStep,
    SourceSpec,
    StepSpec,
    Watermark,
)
from headwater.pipelines.spec.python_document import load_module
from headwater.pipelines.spec.spark_formats import ICEBERG
from headwater.spark.formats.avro.avro_options import RegistryAccess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ENDINGS: Final = ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp")


class Frames:
    """The frames of a pipeline, by the names of its sources and steps."""

    def __init__(
        self,
        spark: "SparkSession",
        spec: PipelineSpec,
        connectors: Connectors,
        *,
        is_measured: bool = False,
    ) -> None:
        """With `measured`, Spark's progress counts bytes of topics and dead letters."""
        self._is_measured = is_measured
        self._spark = spark
        self._spec = spec
        self._connectors = connectors
        self._frames: dict[str, DataFrame] = {}
        for source in spec.sources:
            self._add(source.name, self._source(source), source.watermark)
        for step in in_order(spec):
            self._add(step.name, self._step(step), step.watermark)

    def __getitem__(self, name: str) -> "DataFrame":
        return self._frames[name.lower()]

    def dead_letters(self) -> "Mapping[str, DataFrame]":
        """Return by source the records that cannot be decoded."""
        found = {}
        for source in self._spec.sources:
            if source.is_topic:
                keeping = replace(source, options={**source.options, "includeHeaders": "true"})
                records = self._records(keeping, is_streaming=True)
                letters = dead_letters(
                    records, self._known(source), self._spec.name, self._registry(source)
                )
                if letters is not None:
                    if self._is_measured:
                        letters = letters.observe(DEAD_LETTERS, f.count("*").alias(COUNT))
                    found[source.name] = letters
        return found

    def _add(self, name: str, frame: "DataFrame", watermark: Watermark | None) -> None:
        if watermark is not None:
            frame = frame.withWatermark(watermark.column, f"{watermark.delay_ms} milliseconds")
        frame.createOrReplaceTempView(name)
        self._frames[name.lower()] = frame

    def _source(self, source: SourceSpec) -> "DataFrame":
        if source.connector is not None:
            return self._connectors.source(source.connector).stream(self._spark, source.options)
        if not source.is_topic:
            return self._files(source)
        records = self._records(source, is_streaming=not source.is_table)
        if source.is_table:
            records = latest_per_key(records)
        elif self._is_measured:
            size = f.coalesce(f.octet_length("key"), f.lit(0))
            size += f.coalesce(f.octet_length("value"), f.lit(0))
            total = f.sum(size.cast("bigint")).alias(BYTES)
            records = records.observe(INPUT + source.name, total)
        keeps_broken = self._spec.dead_letter is not None
        known, registry = self._known(source), self._registry(source)
        return decode(records, known, registry, keeps_broken=keeps_broken)

    def _changelog(self, name: str) -> "DataFrame":
        """Read the changelog of a table as a stream, including tombstones."""
        source = next(each for each in self._spec.sources if each.name == name)
        records = self._records(source, is_streaming=True)
        keeps_broken = self._spec.dead_letter is not None
        known, registry = self._known(source), self._registry(source)
        return decode(records, known, registry, keeps_broken=keeps_broken)

    def _known(self, source: SourceSpec) -> SourceSpec:
        """Return a source with the columns of its Avro schemas."""
        topic = source_options(source, self._spec).subscription.only_topic
        return with_columns(source, self._spec, topic)

    def _registry(self, source: SourceSpec) -> RegistryAccess | None:
        return source_registry(source, self._spec)

    def _files(self, source: SourceSpec) -> "DataFrame":
        if source.format.lower() == ICEBERG:
            from headwater.pipelines.tables.iceberg_source import iceberg_frame

            return iceberg_frame(self._spark, source)
        reader = self._spark.read if source.is_static else self._spark.readStream
        reader = reader.format(source.format).options(**source.options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        if source.table.name is not None:
            return reader.table(source.table.name)
        return reader.load()

    def _records(self, source: SourceSpec, *, is_streaming: bool) -> "DataFrame":
        options = topic_options(self._spec, source.options)
        if is_streaming and source.is_table:
            options = {name: text for name, text in options.items() if name.lower() not in _ENDINGS}
            options.setdefault("startingOffsets", "earliest")
        if is_streaming:
            return self._spark.readStream.format(source.format).options(**options).load()
        # Read again by every batch of the stream that is joined with it.
        options = {**options, "atPresent": "true"}
        return self._spark.read.format(source.format).options(**options).load()

    def _step(self, step: StepSpec) -> "DataFrame":
        if step.sql is not None:
            return self._spark.sql(step.sql)
        if step.lookup is not None:
            return lookup_join(
                self[step.lookup.stream], self._changelog(step.lookup.table), step.lookup
            )
        assert step.python is not None, "refused when the file was read"
        function = self._function(step.python)
        frame: DataFrame = function(*(self[name] for name in step.inputs))
        return frame

    def _function(self, python: PythonStep) -> Callable[..., Any]:
        if python.file is None:
            found = self._spec.functions.get(python.function)
            module = inspect.getmodule(found)
        else:
            module = load_module(python.file)
            found = getattr(module, python.function, None)
        if not callable(found):
            raise fail_parsing(python.file or self._spec.file, 1, f"there is no {python.function}")
        if module is not None:
            # Workers do not have the file, so its functions and classes are pickled by value.
            by_value: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
            by_value(module)
        return found

"""Find problems of Delta and Iceberg tables before Spark is started."""

import importlib.util
from collections.abc import Iterator

from headwater.pipelines.spec.document import Place
from headwater.pipelines.spec.pipeline_spec import Mode, PipelineSpec, SinkSpec, SourceSpec
from headwater.pipelines.tables.delta_setup import why_no_delta

Problem = tuple[Place, str]


def of_delta(end: SourceSpec | SinkSpec, spec: PipelineSpec) -> Iterator[Problem]:
    if reason := why_no_delta():
        yield (*end.place, "format"), f"{end.name}: {reason}"
    if ("path" in end.options) is (end.table.name is not None):
        yield end.place, f"{end.name}: delta needs path, or table"
    if end.table.catalog:
        yield (*end.place, "catalog"), f"{end.name}: only iceberg has a catalog here"
    if end.table.name is not None and not _has_hive(spec):
        yield (
            (*end.place, "table"),
            f"{end.name}: Spark would forget the table {end.table.name} at its end: set path, or "
            "spark.sql.catalogImplementation: hive in session.conf",
        )


def _has_hive(spec: PipelineSpec) -> bool:
    return spec.conf.get("spark.sql.catalogImplementation") == "hive"


def of_delta_sink(sink: SinkSpec) -> Iterator[Problem]:
    for each in sink.table.partition_by:
        if each.transform != "identity":
            reason = f"delta is partitioned by columns only, not by {each.transform}(...)"
            yield (*sink.place, "partition_by"), reason
    yield from _of_mode(sink, can_complete=True)


def of_iceberg(end: SourceSpec | SinkSpec) -> Iterator[Problem]:
    if importlib.util.find_spec("pyiceberg") is None:
        reason = "iceberg needs PyIceberg: pip install 'headwater[iceberg]'"
        yield (*end.place, "format"), f"{end.name}: {reason}"
    name = end.table.name
    if name is None or "." not in name:
        place = end.place if name is None else (*end.place, "table")
        yield place, f"{end.name}: iceberg needs table: NAMESPACE.TABLE"
    if not end.table.catalog:
        yield end.place, f"{end.name}: iceberg needs a catalog: its properties, or its name"


def of_iceberg_sink(sink: SinkSpec) -> Iterator[Problem]:
    yield from _of_mode(sink, can_complete=False)


def _of_mode(sink: SinkSpec, *, can_complete: bool) -> Iterator[Problem]:
    place = (*sink.place, "mode")
    has_merge = sink.table.merge is not None
    if sink.mode is Mode.UPDATE and not has_merge:
        yield place, f"{sink.name}: updates replace rows by keys: set merge"
    if sink.mode is Mode.COMPLETE and (has_merge or not can_complete):
        instead = "update" if has_merge else "append"
        yield place, f"{sink.name}: mode complete does not fit here: use {instead}"

"""Bound a pipeline to a range of offsets, for a backfill beside the live run.

A bounded run has a name of its own, `orders@20260101T000000Z-20260102T000000Z`. Checkpoints, query
names, the lock and the reports of a run all follow from the name, so it shares none of them with
the live run. A new checkpoint has a new query id, on which the transactional ids and batch markers
of the exactly-once sink are built: neither run fences the other, and neither skips the other's
batches as repeated ones. The same range gives the same name: the same command resumes a bounded run
that was interrupted.

Note: Spark's file sinks are an exception. They look up batch ids in a log in the folder that they
write to, and would take the batches of a second query for repeated ones and skip them. So files of
a bounded run need a folder of their own.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headwater.common.ids import TopicPartition
from headwater.pipelines.check.pipeline_check import source_options
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, SinkSpec, SourceSpec, Trigger
from headwater.spark.exceptions import InvalidOption
from headwater.spark.locations import below, resolved, unreachable_reason
from headwater.spark.source.offset_reader import OffsetReader
from headwater.spark.source.source_options import OffsetsAt, SourceOptions
from headwater.spark.source.topic_offsets import EARLIEST, Offsets, Position, to_document

FILE_FORMATS: Final = frozenset({"parquet", "orc", "json", "csv", "text", "xml", "avro"})
"""Formats whose sink keeps a log of batches in the folder that it writes to."""

_STARTS: Final = frozenset(
    {
        "startingoffsets",
        "startingtimestamp",
        "startingoffsetsbytimestamp",
        "startingoffsetsbytimestampstrategy",
    }
)
_ID_LENGTH: Final = 8

Lookup = Callable[[SourceOptions], AbstractContextManager[OffsetReader]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One end of a range: a time, offsets of partitions, or the start of the log."""

    # Name of the command line option, for messages.
    option: str
    timestamp_ms: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def label(self) -> str:
        """Return the bound as part of a name, without colons, which Hadoop rejects."""
        if self.offsets:
            text = json.dumps(to_document(Position(self.offsets)))
            return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
        if self.timestamp_ms is None:
            return "earliest"
        seconds, millis = divmod(self.timestamp_ms, 1000)
        moment = datetime.fromtimestamp(seconds, UTC)
        return f"{moment:%Y%m%dT%H%M%S}{f'.{millis:03}' if millis else ''}Z"


def bounded(
    spec: PipelineSpec, start: Bound, end: Bound, *, lookup: Lookup, output: str | None = None
) -> PipelineSpec:
    """Return the pipeline between two bounds, with its own name.

    `output` is the parent folder for file sinks. Raises `InvalidOption` if a source cannot be
    bounded.
    """
    _refuse_unread(spec, start, end, lookup)
    return replace(
        spec,
        name=f"{spec.name}@{start.label()}-{end.label()}",
        sources=tuple(_bounded_source(each, spec, start, end, lookup) for each in spec.sources),
        sinks=tuple(_bounded_sink(each, spec, output) for each in spec.sinks),
        is_bounded=True,
    )


def offset_count(spec: PipelineSpec) -> int:
    """Count the offsets that a bounded pipeline reads.

    Sources that are read twice count twice.
    """
    count = 0
    for source in spec.sources:
        if source.is_topic and not source.is_table:
            options = source_options(source, spec)
            assert options.until is not None, "bounded"
            start = options.starting.offsets
            count += sum(end - start[each] for each, end in options.until.items())
    return count


def _bounded_source(
    source: SourceSpec, spec: PipelineSpec, start: Bound, end: Bound, lookup: Lookup
) -> SourceSpec:
    if source.is_table:
        return source
    if not source.is_topic:
        raise InvalidOption(
            f"{start.option} and {end.option} bound topics, and the source {source.name} is none"
        )
    options = source_options(source, spec)
    with lookup(options) as offsets:
        partitions = offsets.partitions()
        first = offsets.begin(_place(start, partitions))
        # Retention may have removed records since the run was started first.
        begin = {
            each: max(first[each], offset) for each, offset in offsets.earliest(partitions).items()
        }
        last = offsets.end(_place(end, partitions))
    until = {each: max(last[each], begin[each]) for each in partitions}
    kept = {name: text for name, text in source.options.items() if name.lower() not in _STARTS}
    kept |= {"startingOffsets": _json(begin), "untilOffsets": _json(until)}
    return replace(source, options=kept)


def _place(bound: Bound, partitions: list[TopicPartition]) -> OffsetsAt:
    if bound.timestamp_ms is not None:
        return OffsetsAt(timestamp_ms=bound.timestamp_ms)
    if not bound.offsets:
        return OffsetsAt(offset=EARLIEST)
    missing = [each for each in partitions if each not in bound.offsets]
    if missing:
        raise InvalidOption(
            f"{bound.option} says nothing of {missing[0]}; use -1 for latest, -2 for earliest"
        )
    return OffsetsAt(offsets={each: bound.offsets[each] for each in partitions})


def _refuse_unread(spec: PipelineSpec, start: Bound, end: Bound, lookup: Lookup) -> None:
    """Reject offsets of partitions that no source reads, such as a misspelled topic."""
    named = {each: bound for bound in (start, end) for each in bound.offsets}
    for source in spec.sources:
        if named and source.is_topic and not source.is_table:
            with lookup(source_options(source, spec)) as offsets:
                for each in offsets.partitions():
                    named.pop(each, None)
    for each, bound in sorted(named.items()):
        raise InvalidOption(f"{bound.option} names {each}, which the pipeline does not read")


def _bounded_sink(sink: SinkSpec, spec: PipelineSpec, output: str | None) -> SinkSpec:
    options = dict(sink.options)
    if sink.connector is None and sink.format in FILE_FORMATS:
        if output is None:
            raise InvalidOption(
                f"the sink {sink.name} writes files to {options.get('path')}, which only one query "
                "can do: Spark would skip the batches of a second one; name a folder for the files "
                "of this run with --output"
            )
        options["path"] = below(resolved(output, Path.cwd()), sink.name)
        if reason := unreachable_reason(options["path"], spec.master):
            raise InvalidOption(f"--output: {reason}")
    return replace(sink, options=options, trigger=Trigger())


def _json(offsets: Offsets) -> str:
    return json.dumps(to_document(Position(offsets)))

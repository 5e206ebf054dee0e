"""The bounds of `headwater pipeline run --from --to`, and the bounded pipeline."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from headwater.cli.times import timestamp_ms

if TYPE_CHECKING:
    from headwater.pipelines.run.bounded_run import Bound
    from headwater.pipelines.spec.pipeline_spec import PipelineSpec
    from headwater.spark.source.offset_reader import OffsetReader
    from headwater.spark.source.source_options import SourceOptions


def bounds_of(from_: str, to: str | None, *, now_ms: int) -> "tuple[Bound, Bound]":
    """Parse both bounds; without `to` the range ends now."""
    from headwater.pipelines.run.bounded_run import Bound

    start = _bound("--from", from_)
    if to == "earliest":
        raise typer.BadParameter("--to earliest leaves nothing to read")
    end = Bound(option="--to", timestamp_ms=now_ms) if to is None else _bound("--to", to)
    times_ms = start.timestamp_ms, end.timestamp_ms
    if times_ms[0] is not None and times_ms[1] is not None and times_ms[0] >= times_ms[1]:
        raise typer.BadParameter("--from must be before --to")
    return start, end


def bounded_pipeline(
    spec: "PipelineSpec", bounds: "tuple[Bound, Bound]", output: str | None, *, as_json: bool
) -> "PipelineSpec":
    """Resolve the bounds to offsets, and print what will be read."""
    from headwater.pipelines.run.bounded_run import bounded, offset_count

    start, end = bounds
    found = bounded(spec, start, end, lookup=offsets_of, output=output)
    if not as_json:
        typer.echo(f"headwater: {found.name} reads {offset_count(found):,} offsets", err=True)
    return found


@contextmanager
def offsets_of(options: "SourceOptions") -> "Iterator[OffsetReader]":
    """Request the offsets of a source's partitions."""
    from headwater.client.consumer.offset_range_reader import OffsetRangeReader
    from headwater.spark.source.offset_reader import OffsetReader

    with OffsetRangeReader(options.client) as brokers:
        yield OffsetReader(brokers, options.subscription, latest_if_no_match=True)


def _bound(option: str, text: str) -> "Bound":
    from headwater.pipelines.run.bounded_run import Bound
    from headwater.spark.exceptions import InvalidOption
    from headwater.spark.source.topic_offsets import parse_offsets

    if text == "earliest":
        return Bound(option=option)
    if text.lstrip().startswith("{"):
        try:
            offsets = parse_offsets(option, text)
        except InvalidOption as error:
            raise typer.BadParameter(str(error)) from None
        if not offsets:
            raise typer.BadParameter(f"{option} names no partition")
        return Bound(option=option, offsets=offsets)
    return Bound(option=option, timestamp_ms=timestamp_ms(text))

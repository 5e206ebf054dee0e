"""Read rows, lag and times of a query's last batch from Spark's progress.

Lag is the number of offsets that were not read when the batch was planned. Spark reports nothing
between batches, so the figures of an idle query are those of its last batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.common.ids import TopicPartition
from headwater.spark.source.topic_offsets import Offsets, offsets_in


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """One batch of a query."""

    batch_id: int
    rows: int
    rows_per_second: float
    batch_ms: int
    # None if no source is a topic, or its latest offsets are not known yet.
    lag: int | None
    # Rows older than the watermark.
    dropped_rows: int
    watermark: str | None
    # By Spark's names: latestOffset, queryPlanning, walCommit, addBatch, commitOffsets, ...
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    state_rows: int = 0
    state_bytes: int = 0
    # End offsets of the batch.
    ends: Offsets = field(default_factory=dict)
    # Values of `observe`, by name and column.
    observed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def read_progress(progress: Mapping[str, Any]) -> BatchProgress:
    """Parse the JSON of a query's progress."""
    states = progress.get("stateOperators") or []
    return BatchProgress(
        batch_id=int(progress.get("batchId", -1)),
        rows=int(progress.get("numInputRows") or 0),
        rows_per_second=_finite(progress.get("processedRowsPerSecond")),
        batch_ms=int((progress.get("durationMs") or {}).get("triggerExecution", 0)),
        lag=_lag(progress.get("sources") or []),
        dropped_rows=sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in states),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        phases_ms={name: int(value) for name, value in (progress.get("durationMs") or {}).items()},
        state_rows=sum(int(each.get("numRowsTotal") or 0) for each in states),
        state_bytes=sum(int(each.get("memoryUsedBytes") or 0) for each in states),
        ends=_ends(progress.get("sources") or []),
        observed={
            name: {column: int(value or 0) for column, value in _columns(row).items()}
            for name, row in (progress.get("observedMetrics") or {}).items()
        },
    )


def _columns(row: Any) -> Mapping[str, Any]:
    """Return the columns of a row: a `Row` in the progress, a mapping in its JSON."""
    found: Mapping[str, Any] = row.asDict() if hasattr(row, "asDict") else row
    return found


def _ends(sources: list[Mapping[str, Any]]) -> dict[TopicPartition, int]:
    ends: dict[TopicPartition, int] = {}
    for source in sources:
        for each, offset in offsets_in(_text(source.get("endOffset"))).items():
            # Two sources may read one topic.
            ends[each] = min(offset, ends.get(each, offset))
    return ends


def _lag(sources: list[Mapping[str, Any]]) -> int | None:
    behind = None
    for source in sources:
        ends = offsets_in(_text(source.get("endOffset")))
        latest = offsets_in(_text(source.get("latestOffset")))
        if not ends or not latest:
            # A batch that is repeated after a restart was planned before the restart.
            continue
        behind = (behind or 0) + sum(
            max(0, offset - ends.get(partition, offset)) for partition, offset in latest.items()
        )
    return behind


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _finite(value: Any) -> float:
    """Return a number, or None: Spark writes `NaN` or nothing for a division by zero."""
    number = float(value or 0)
    return round(number, 1) if number == number and abs(number) != float("inf") else 0.0

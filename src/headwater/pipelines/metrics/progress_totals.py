"""Sum up the batches of a pipeline's queries, for counters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headwater.pipelines.run.batch_progress import BatchProgress

INPUT: Final = "input."
"""Prefix of the observation that adds up a source's bytes; the rest is the source's name."""
BYTES: Final = "bytes"
DEAD_LETTERS: Final = "dead_letters"
COUNT: Final = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTotals:
    """Totals of a sink since the run started."""

    batches: int = 0
    rows: int = 0
    dropped_rows: int = 0
    dead_letters: int = 0
    seconds: float = 0.0
    # By source.
    bytes: Mapping[str, int] = field(default_factory=dict)

    def plus(self, batch: BatchProgress) -> "SinkTotals":
        """Return the totals with one more batch. A repeated batch counts again."""
        sizes = dict(self.bytes)
        for name, columns in batch.observed.items():
            if name.startswith(INPUT):
                source = name.removeprefix(INPUT)
                sizes[source] = sizes.get(source, 0) + columns.get(BYTES, 0)
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + batch.rows,
            dropped_rows=self.dropped_rows + batch.dropped_rows,
            dead_letters=self.dead_letters + batch.observed.get(DEAD_LETTERS, {}).get(COUNT, 0),
            seconds=self.seconds + batch.batch_ms / 1000,
            bytes=sizes,
        )

"""Read the results from the topic and the files, and compare them with the expected ones."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.queries import REVENUE
from demo.shop import Cell, Revenue, seconds_since_opening
from headwater.client import Consumer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RevenueReader:
    """Reads the result topic with read_committed."""

    def __init__(self, brokers: str, partitions: int) -> None:
        self._consumer = Consumer(
            bootstrap_servers=brokers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        self._consumer.assign([TopicPartition(REVENUE, each) for each in range(partitions)])
        self.rows: list[tuple[Cell, Revenue]] = []

    def poll(self, timeout_s: float) -> None:
        for record in self._consumer.poll(timeout_s):
            self.rows.append(_row(json.loads(record.value or b"{}")))

    def close(self) -> None:
        self._consumer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Comparison with the expected results."""

    expected: int
    right: int
    wrong: int
    missing: int
    twice: int
    cents: int

    @property
    def is_right(self) -> bool:
        return self.right == self.expected and not (self.wrong or self.missing or self.twice)


def compare(rows: Iterable[tuple[Cell, Revenue]], expected: Mapping[Cell, Revenue]) -> Comparison:
    """Compare: each window must occur once, with the right sums."""
    found = list(rows)
    counts = Counter(cell for cell, _ in found)
    right = sum(1 for cell, revenue in dict(found).items() if expected.get(cell) == revenue)
    return Comparison(
        expected=len(expected),
        right=right,
        wrong=len(counts) - right,
        missing=sum(1 for cell in expected if cell not in counts),
        twice=sum(1 for count in counts.values() if count > 1),
        cents=sum(revenue.cents for _, revenue in found),
    )


def parquet_rows(spark: "SparkSession", folder: Path) -> list[tuple[Cell, Revenue]]:
    """Read the files with Spark, which ignores those of failed attempts."""
    if not folder.exists():
        return []
    rows = spark.read.schema("start timestamp, tea string, orders bigint, cents bigint").parquet(
        str(folder)
    )
    # Strings are in UTC, like the session; timestamps would be in the local time zone.
    texts = rows.selectExpr(
        "date_format(start, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") start", "* except (start)"
    )
    return [_row(row.asDict()) for row in texts.collect()]


def _row(document: Mapping[str, Any]) -> tuple[Cell, Revenue]:
    start = datetime.fromisoformat(document["start"])
    cell = Cell(seconds_since_opening(start), document["tea"])
    return cell, Revenue(document["orders"], document["cents"])

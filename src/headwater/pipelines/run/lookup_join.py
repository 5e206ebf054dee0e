"""Join a stream with a changelog that Spark keeps as state.

A join with `table: true` in SQL reads the whole changelog again with every batch. Here the
changelog is a second stream: its records update the state of their key, and rows of the stream are
joined with the state. The cost of a batch depends on its rows, not on the size of the table.

Note: a batch processes the table's records first, so a row is joined with the table as of the
planning of its batch.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import LongType, StructField, StructType

from headwater.pipelines.spec.pipeline_spec import LookupSpec
from headwater.pipelines.spec.source_reader import RECORD
from headwater.spark.exceptions import WrongColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY: Final = "__headwater_key_"
_ROW: Final = "__headwater_row"
_CHANGE: Final = "__headwater_change"
_OFFSET: Final = "__headwater_offset"


def lookup_join(rows: "DataFrame", changes: "DataFrame", lookup: LookupSpec) -> "DataFrame":
    """Add the columns of the table, whose decoded changelog is `changes`."""
    own = list(rows.columns)
    added = [name for name in changes.columns if name != RECORD and name not in lookup.on.values()]
    clash = sorted(set(own) & set(added))
    if clash:
        raise WrongColumns(f"{', '.join(clash)} is a column of the stream and of the table")
    for name in lookup.on:
        if name not in own:
            raise WrongColumns(f"the stream has no column {name}; it has {', '.join(own)}")
    kinds = dict(changes.dtypes)
    keys = [f"{_KEY}{at}" for at in range(len(lookup.on))]
    row_type = rows.select(f.struct(*_quoted(own)).alias(_ROW)).schema[_ROW].dataType
    value_type = changes.select(f.struct(*_quoted(added)).alias(_CHANGE)).schema[_CHANGE].dataType
    assert isinstance(value_type, StructType)
    left = rows.select(
        *(
            f.col(f"`{mine}`").cast(kinds[theirs]).alias(key)
            for key, (mine, theirs) in zip(keys, lookup.on.items(), strict=True)
        ),
        f.struct(*_quoted(own)).alias(_ROW),
        f.lit(None).cast(value_type).alias(_CHANGE),
        f.lit(None).cast("bigint").alias(_OFFSET),
    )
    right = changes.select(
        *(
            f.col(f"`{theirs}`").alias(key)
            for key, theirs in zip(keys, lookup.on.values(), strict=True)
        ),
        f.lit(None).cast(row_type).alias(_ROW),
        # A record without a value deletes its key.
        f.when(f.col(f"{RECORD}.value").isNotNull(), f.struct(*_quoted(added))).alias(_CHANGE),
        f.col(f"{RECORD}.offset").alias(_OFFSET),
    )
    output = StructType([StructField(_ROW, row_type, True), StructField(_CHANGE, value_type, True)])
    joined = (
        left.unionByName(right)
        .groupBy(*keys)
        .transformWithState(
            LatestValue(value_type, is_inner=lookup.is_inner),
            outputStructType=output,
            outputMode="Append",
            timeMode="None",
        )
    )
    return joined.select(
        *(f.col(f"{_ROW}.`{name}`").alias(name) for name in own),
        *(f.col(f"{_CHANGE}.`{name}`").alias(name) for name in added),
    )


def _quoted(names: list[str]) -> list[str]:
    return [f"`{name}`" for name in names]


class LatestValue(StatefulProcessor):
    """Keeps the latest value of a key, and joins rows with it."""

    def __init__(self, value_type: StructType, *, is_inner: bool) -> None:
        self._value_type = value_type
        self._is_inner = is_inner

    def init(self, handle: StatefulProcessorHandle) -> None:
        # State is a row of columns; this one has a single column.
        schema = StructType(
            [StructField("value", self._value_type, True), StructField("offset", LongType(), True)]
        )
        self._latest = handle.getValueState("latest", schema)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        del key, timerValues
        waiting: list[Row] = []
        newest: Row | None = None
        for row in rows:
            if row[_OFFSET] is None:
                waiting.append(row[_ROW])
            elif newest is None or row[_OFFSET] > newest[_OFFSET]:
                newest = row
        if newest is not None:
            if newest[_CHANGE] is None:
                self._latest.clear()
            else:
                self._latest.update((newest[_CHANGE], newest[_OFFSET]))
        if not waiting:
            return
        held = self._latest.get() if self._latest.exists() else None
        value = None if held is None else held[0]
        if value is None and self._is_inner:
            return
        for each in waiting:
            yield Row(**{_ROW: each, _CHANGE: value})

    def close(self) -> None:
        """Do nothing: no resources are held."""

"""Reduce the changes of a batch to the last one of each key.

Note: a merge requires unique keys. `sequence_by` determines the later of two changes of a key; the
default is the offset of the record, because all records of a key are in one partition. A change is
not compared with those of earlier batches, which are older by the order of the source.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from headwater.pipelines.spec.pipeline_spec import MergeSpec
from headwater.pipelines.spec.source_reader import RECORD
from headwater.spark.exceptions import InvalidOption, WrongColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELETED: Final = "__headwater_deleted"
_CHANGE: Final = "__headwater_change"
_SEQUENCE: Final = "__headwater_sequence"


def table_columns(frame: "DataFrame", merge: MergeSpec | None) -> list[str]:
    """Return the columns to write: all but the record's and excepted ones."""
    excepted = {RECORD, *(() if merge is None else merge.except_column_list)}
    return [name for name in frame.columns if name not in excepted]


def check_merge(frame: "DataFrame", merge: MergeSpec) -> None:
    """Reject missing key columns, and changes without an order."""
    columns = table_columns(frame, merge)
    for name in (*merge.keys, *merge.except_column_list):
        if name not in frame.columns:
            raise WrongColumns(f"merge names the column {name}; there are {', '.join(columns)}")
    for name in merge.keys:
        if name not in columns:
            raise WrongColumns(f"the key {name} must be a column of the table")
    if merge.sequence_by is None and RECORD not in frame.columns:
        raise InvalidOption(
            "merge needs sequence_by: an expression that orders the changes of a key"
        )


def last_changes(rows: "DataFrame", merge: MergeSpec) -> "DataFrame":
    """Return one row per key, with the column `DELETED`."""
    columns = table_columns(rows, merge)
    is_deleted = f.lit(False) if merge.apply_as_deletes is None else f.expr(merge.apply_as_deletes)
    changes = rows.select(
        *(f.col(f"`{name}`") for name in columns),
        f.coalesce(is_deleted, f.lit(False)).alias(DELETED),
        f.expr(merge.sequence_by or f"{RECORD}.offset").alias(_SEQUENCE),
    )
    others = [name for name in (*columns, DELETED) if name not in merge.keys]
    last = f.max_by(f.struct(*(f.col(f"`{name}`") for name in others)), f.col(_SEQUENCE))
    grouped = changes.groupBy(*(f.col(f"`{name}`") for name in merge.keys))
    return grouped.agg(last.alias(_CHANGE)).select(
        *(
            f.col(f"`{name}`") if name in merge.keys else f.col(f"{_CHANGE}.`{name}`").alias(name)
            for name in (*columns, DELETED)
        )
    )

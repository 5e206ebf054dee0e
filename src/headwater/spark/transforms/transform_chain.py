"""Apply a list of transforms to a DataFrame of records.

The columns are those of Spark's Kafka source: key, value, headers, topic, partition, offset and
timestamp, as far as records have them. Keys and values are structs if they were decoded.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headwater.spark.exceptions import InvalidOption
from headwater.spark.transforms import field_transforms, record_transforms, type_transforms
from headwater.spark.transforms.record_columns import Changed, kind_of
from headwater.spark.transforms.transform_config import TransformSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The reason why a record could not be transformed; null if it could.
FAILURE: Final = "__transform_error"
_DROPPED: Final = "__transform_dropped"

_TRANSFORMS: "Final[Mapping[str, Callable[[DataFrame, TransformSpec], Changed]]]" = {
    "InsertField": field_transforms.insert_field,
    "ReplaceField": field_transforms.replace_field,
    "MaskField": field_transforms.mask_field,
    "ValueToKey": field_transforms.value_to_key,
    "HoistField": field_transforms.hoist_field,
    "ExtractField": field_transforms.extract_field,
    "Flatten": field_transforms.flatten,
    "Cast": type_transforms.cast,
    "TimestampConverter": type_transforms.timestamp_converter,
    "RegexRouter": record_transforms.regex_router,
    "TimestampRouter": record_transforms.timestamp_router,
    "InsertHeader": record_transforms.insert_header,
    "DropHeaders": record_transforms.drop_headers,
    "Filter": record_transforms.drop_record,
}


def transform_records(records: "DataFrame", transforms: Sequence[TransformSpec]) -> "DataFrame":
    """Return the transformed records; fail the query if one cannot be."""
    if not transforms:
        return records
    return checked(with_failures(records, transforms))


def with_failures(
    records: "DataFrame",
    transforms: Sequence[TransformSpec],
    failure: "Column | None" = None,
) -> "DataFrame":
    """Return the transformed records with the column `FAILURE`, without dropped ones.

    A record that has a `failure` already, such as one that was not decoded, is left as it is.
    """
    reason = f.lit(None).cast("string") if failure is None else failure
    frame = records.withColumns({FAILURE: reason, _DROPPED: f.lit(False)})
    for spec in transforms:
        frame = _apply(frame, spec)
    return frame.where(~f.col(_DROPPED)).drop(_DROPPED)


def checked(transformed: "DataFrame") -> "DataFrame":
    """Fail the query at a record that could not be transformed."""
    failure = f.col(FAILURE)
    is_fine = f.when(failure.isNotNull(), f.raise_error(failure).cast("boolean")).otherwise(True)
    return transformed.where(is_fine).drop(FAILURE)


def _apply(frame: "DataFrame", spec: TransformSpec) -> "DataFrame":
    changed = _TRANSFORMS[spec.kind](frame, spec)
    # A record that was dropped or has failed is not looked at again.
    applies = ~f.col(_DROPPED) & f.col(FAILURE).isNull()
    columns = dict(changed.columns)
    if spec.predicate is not None:
        is_true = record_transforms.condition(frame, spec.predicate, spec)
        chosen = ~is_true if spec.is_negated else is_true
        applies &= chosen
        columns = {
            name: _where(chosen, frame, name, column, spec) for name, column in columns.items()
        }
    if changed.drops:
        columns[_DROPPED] = f.col(_DROPPED) | applies
    if changed.failure is not None:
        reason = f.concat(f.lit(f"{spec}: "), changed.failure)
        columns[FAILURE] = f.when(applies, reason).otherwise(f.col(FAILURE))
    return frame.withColumns(columns)


def _where(
    applies: "Column", frame: "DataFrame", name: str, column: "Column", spec: TransformSpec
) -> "Column":
    """Return the changed column where a predicate holds, and the former one elsewhere.

    The rows of a column have one type. So a field that only some records have is null in others.
    """
    if name not in frame.columns:
        return f.when(applies, column)
    new_kind, old_kind = (
        frame.select(column.alias(name)).schema[name].dataType,
        kind_of(frame, name),
    )
    old = f.col(name)
    if isinstance(new_kind, StructType) and isinstance(old_kind, StructType):
        kinds = {each.name: each.dataType for each in (*old_kind.fields, *new_kind.fields)}
        if all(
            each.dataType.simpleString() == kinds[each.name].simpleString()
            for each in old_kind.fields
        ):
            new = _widened(column, new_kind, kinds)
            return f.when(applies, new).otherwise(_widened(old, old_kind, kinds))
    elif new_kind.simpleString() == old_kind.simpleString():
        return f.when(applies, column).otherwise(old)
    raise InvalidOption(
        f"{spec} changes the type of the {name}, which all records of a query share: "
        "it cannot have a predicate"
    )


def _widened(column: "Column", kind: StructType, kinds: Mapping[str, object]) -> "Column":
    fields = [
        (
            column.getField(name) if name in kind.names else f.lit(None).cast(each)  # type: ignore[arg-type]
        ).alias(name)
        for name, each in kinds.items()
    ]
    return f.when(column.isNotNull(), f.struct(*fields))

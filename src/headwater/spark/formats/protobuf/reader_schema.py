"""Find the message that a query reads: of a given schema, or of a subject."""

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headwater.spark.exceptions import InvalidOption, WrongColumns
from headwater.spark.formats.arrow_types import arrow_type
from headwater.spark.formats.avro.avro_options import AvroOptions
from headwater.spark.formats.avro.reader_schema import missing_subject
from headwater.spark.formats.protobuf.named_message import NamedMessage, named
from headwater.spark.formats.protobuf.protobuf_writer import column_kind
from headwater.spark.formats.protobuf.registry_cache import ProtobufRegistry

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

PROTOBUF_METADATA: Final = "headwater.protobuf"


def named_message(options: AvroOptions, topic: str | None) -> NamedMessage:
    """Raises `InvalidOption` or `UnsupportedSchema`."""
    if options.schema is not None:
        return named(options.schema, options.message, {})
    subject = options.subject_of(topic, options.message)
    registry = ProtobufRegistry(options.registry)
    try:
        latest = registry.latest(subject)
        if latest is None:
            raise InvalidOption(missing_subject(subject))
        imports, _ = registry.imports_and_schema(latest)
        return named(latest.schema, options.message, imports)
    finally:
        registry.close()


def column_reader(field: "StructField", options: AvroOptions, topic: str | None) -> str:
    """The message to read a column as, whose fields must include those of the column."""
    told = (field.metadata or {}).get(PROTOBUF_METADATA)
    if isinstance(told, str):
        return told
    found = named_message(options, topic)
    kind: Any = column_kind(found.parsed(), found.message)
    wanted: Any = arrow_type(field.dataType, field.name)
    there = {each.name: each.type for each in kind.fields}
    fits = pa.types.is_struct(wanted) and all(
        there.get(each.name) == each.type for each in wanted.fields
    )
    if not fits:
        raise WrongColumns(
            f"the column {field.name} is {wanted}, and the message {found.message} is {kind}: a "
            "schema may leave out fields of the message, but not change them"
        )
    return found.as_text()


def selected(values: Any, kind: Any) -> Any:
    """The fields of a struct that its type has."""
    if values.type == kind:
        return values
    names = [each.name for each in kind.fields]
    columns = [values.field(name) for name in names]
    return pa.StructArray.from_arrays(columns, names=names, mask=values.is_null())

"""Check the registry before an import or export with Avro starts Spark."""

from headwater.pipelines.check.avro_check import (
    ReachedRegistries,
    incompatibility_reason,
    reader_in_reach,
)
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.formats.avro.avro_options import AvroOptions


def check_registry(options: AvroOptions, topic: str, *, is_import: bool) -> None:
    """Raise `HeadwaterError` if the schema is missing or unsuitable."""
    if not is_import:
        reader_in_reach(options, topic, ReachedRegistries())
        return
    reason = incompatibility_reason(options, topic, ReachedRegistries())
    if reason is not None:
        raise UnsupportedSchema(reason)

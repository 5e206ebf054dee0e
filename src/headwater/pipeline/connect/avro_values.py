"""Looks at the registry before an import or export with Avro starts Spark."""

from headwater.pipeline.avro_options import AvroOptions
from headwater.pipeline.failures import SchemaUnfit
from headwater.pipeline.jobs.avro_checking import ReachedRegistries, reader_in_reach, why_unwritable


def expect_registry(options: AvroOptions, topic: str, *, is_import: bool) -> None:
    """`HeadwaterError` with what is wrong, if something is."""
    if not is_import:
        reader_in_reach(options, topic, ReachedRegistries())
        return
    reason = why_unwritable(options, topic, ReachedRegistries())
    if reason is not None:
        raise SchemaUnfit(reason)

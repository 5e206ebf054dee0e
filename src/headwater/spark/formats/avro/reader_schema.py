"""Find a query's reader schema: a given one, or the latest of a subject.

Note: a query with a schema of its own needs no subject. Writers' schemas are found by the ids in
the records.
"""

from headwater.schemas.avro.resolved_schema import Schema, parse_schema
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import AvroOptions
from headwater.spark.formats.avro.registry_cache import RetryingRegistry


def reader_schema(options: AvroOptions, topic: str | None) -> Schema:
    """Return the given schema, or else the latest version of the subject."""
    if options.schema is not None:
        return parse_schema(options.schema)
    subject = options.subject_of(topic, None)
    registry = RetryingRegistry(options.registry)
    try:
        return newest(registry, subject)
    finally:
        registry.close()


def newest(registry: RetryingRegistry, subject: str) -> Schema:
    """Return the latest version. Raises `InvalidOption` for a missing subject."""
    latest = registry.latest(subject)
    if latest is None:
        raise InvalidOption(missing_subject(subject))
    return registry.parsed(latest)


def missing_subject(subject: str) -> str:
    return (
        f"the registry has no subject {subject}: register a schema, with "
        f"`headwater registry register {subject} FILE`, or name another schema or subject"
    )

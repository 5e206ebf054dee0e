"""The schema that a query reads with: one that was given, or the newest of a subject.

What a reader would get wrong: with a schema of its own a query needs no subject. Writers' schemas
are found by the ids in the records.
"""

from headwater.pipeline.avro.registry import PatientRegistry
from headwater.pipeline.avro.schemas import Schema, parse_schema
from headwater.pipeline.avro_options import AvroOptions
from headwater.pipeline.failures import OptionRefused


def reader_schema(options: AvroOptions, topic: str | None) -> Schema:
    """The one that was given, or else the newest of the subject."""
    if options.schema is not None:
        return parse_schema(options.schema)
    subject = options.subject_of(topic, None)
    registry = PatientRegistry(options.registry)
    try:
        return newest(registry, subject)
    finally:
        registry.close()


def newest(registry: PatientRegistry, subject: str) -> Schema:
    """`OptionRefused` where there is no such subject."""
    latest = registry.latest(subject)
    if latest is None:
        raise OptionRefused(missing_subject(subject))
    return registry.parsed(latest)


def missing_subject(subject: str) -> str:
    return (
        f"the registry has no subject {subject}: register a schema, with "
        f"`headwater registry register {subject} FILE`, or name another schema or subject"
    )

"""Find problems of a pipeline's Avro schemas, partly by asking the registry.

The schema that a sink derives from its columns is not known here. The registry accepts or rejects
it when the sink starts, before its first row.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from headwater.common.exceptions import HeadwaterError
from headwater.pipelines.run.avro_options import source_avro, with_schema
from headwater.pipelines.spec.document import Place
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, SinkSpec, SourceSpec
from headwater.pipelines.spec.source_reader import clashes
from headwater.schemas.avro.resolved_schema import Record, Schema, parse_schema
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import AvroOptions, RegistryAccess
from headwater.spark.formats.avro.reader_schema import missing_subject, newest
from headwater.spark.formats.avro.registry_cache import RetryingRegistry
from headwater.spark.formats.avro.schema_resolution import resolve

# Short, because a user waits for the check.
_TIMEOUT_S: Final = 3.0

Problem = tuple[Place, str]


class Registries(Protocol):
    """Opens registries."""

    def at(self, access: RegistryAccess) -> RetryingRegistry:
        """Open a registry; the caller closes it."""


class ReachedRegistries:
    """Registries over the network, without retries."""

    def at(self, access: RegistryAccess) -> RetryingRegistry:
        return RetryingRegistry(access, pauses_s=(), timeout_s=_TIMEOUT_S)


def of_source(
    source: SourceSpec, spec: PipelineSpec, topic: str | None, registries: Registries | None
) -> tuple[SourceSpec, list[Problem]]:
    """Return the source with its columns, and problems of its Avro settings."""
    place = (*source.place, "decode")
    found: list[Problem] = []
    try:
        parts = source_avro(source, spec)
    except InvalidOption as error:
        return source, [(place, f"{source.name}: {error}")]
    for part, options in parts.items():
        try:
            schema = reader_in_reach(options, topic, registries)
            if schema is not None:
                source = with_schema(source, part, schema)
        except HeadwaterError as error:
            found.append(((*place, part), f"{source.name}: {error}"))
    if parts:
        found += [(place, text) for text in clashes(source.key, source.value)]
    return source, found


def reader_in_reach(
    options: AvroOptions, topic: str | None, registries: Registries | None
) -> Schema | None:
    """Return the reader's schema; None if only an unavailable registry has it."""
    given = None if options.schema is None else parse_schema(options.schema)
    subject = _subject(options, topic, given)
    if registries is None:
        return given
    registry = registries.at(options.registry)
    try:
        if given is None:
            return newest(registry, subject or options.subject_of(topic, None))
        latest = None if subject is None else registry.latest(subject)
        if latest is not None:
            _refuse_unreadable(registry.parsed(latest), given, str(subject))
        return given
    finally:
        registry.close()


def _subject(options: AvroOptions, topic: str | None, given: Schema | None) -> str | None:
    """Return the subject; None if it is unknown and not needed."""
    try:
        return options.subject_of(topic, given.name if isinstance(given, Record) else None)
    except InvalidOption:
        if given is None:
            raise
        return None


def _refuse_unreadable(writer: Schema, reader: Schema, subject: str) -> None:
    try:
        resolve(writer, reader)
    except UnsupportedSchema as error:
        raise UnsupportedSchema(
            f"what {subject} has cannot be read with this schema: {error}"
        ) from None


def of_sink(
    sink: SinkSpec, topic: str | None, avro: dict[str, AvroOptions], registries: Registries | None
) -> Iterator[Problem]:
    """Yield problems of a sink's Avro settings; its options have been read."""
    place = (*sink.place, "encode")
    if "key" in avro and sink.record.key is None:
        yield (*place, "key"), "encode has a key, but the sink has none: set key"
    for part, options in avro.items():
        try:
            reason = incompatibility_reason(options, topic, registries)
        except HeadwaterError as error:
            reason = str(error)
        if reason is not None:
            yield (*place, part), f"{sink.name}: {reason}"


def incompatibility_reason(
    options: AvroOptions, topic: str | None, registries: Registries | None
) -> str | None:
    given = None if options.schema is None else parse_schema(options.schema)
    subject = _subject(options, topic, given)
    if registries is None or subject is None:
        return None
    registry = registries.at(options.registry)
    try:
        if options.use_latest or options.schema is None:
            is_missing = registry.latest(subject) is None
            return missing_subject(subject) if options.use_latest and is_missing else None
        if not options.auto_register:
            known = registry.look_up(subject, options.schema)
            return f"the subject {subject} has not this schema" if known is None else None
        reasons = registry.incompatibilities(subject, options.schema)
        told = "; ".join(reasons)
        return f"the schema is incompatible with {subject}: {told}" if reasons else None
    finally:
        registry.close()

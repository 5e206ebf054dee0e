"""Choose and register the schema of a sink before its first row.

Note: a schema derived from columns takes its name from the latest version of the subject, if there
is one. Avro records with different names are never compatible.
"""

from typing import TYPE_CHECKING

from headwater.client.schema_registry import RegistryResponseError, SchemaIncompatible
from headwater.schemas.avro.resolved_schema import Record, Schema, name_of, parse_schema
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.arrow_types import arrow_type
from headwater.spark.formats.avro.avro_options import AvroOptions, AvroTarget, SubjectNaming
from headwater.spark.formats.avro.avro_writer import avro_writer
from headwater.spark.formats.avro.registry_cache import RetryingRegistry
from headwater.spark.formats.avro.schema_text import schema_text
from headwater.spark.formats.avro.spark_schema import record_name, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

    from headwater.spark.formats.avro.avro_options import RegistryAccess


def targets_of(
    schema: "StructType",
    avro: "Mapping[str, AvroOptions]",
    topic: str | None,
    reach: "Callable[[RegistryAccess], RetryingRegistry]" = RetryingRegistry,
) -> dict[str, AvroTarget]:
    """Return the target schema of each Avro column.

    Raises `UnsupportedSchema`, `InvalidOption` or the registry's error.
    """
    found = {}
    for part, options in avro.items():
        if part not in schema.names:
            raise InvalidOption(f"{part}Format=avro, and there is no column {part}")
        if options.schema_id is not None and options.schema is not None:
            found[part] = AvroTarget(options.schema_id, options.schema)
            continue
        registry = reach(options.registry)
        try:
            found[part] = _spark_target(schema[part], options, topic, registry)
        finally:
            registry.close()
    return found


def _spark_target(
    field: "StructField", options: AvroOptions, topic: str | None, registry: RetryingRegistry
) -> AvroTarget:
    kind = arrow_type(field.dataType, field.name)
    return column_target(
        kind,
        lambda name: schema_of(field.dataType, name, field.name),
        options,
        topic,
        registry,
    )


def column_target(
    kind: "pa.DataType",
    derive: "Callable[[str], Schema]",
    options: AvroOptions,
    topic: str | None,
    registry: RetryingRegistry,
) -> AvroTarget:
    """Return the target schema of a column; `derive` makes one with a record name.

    Raises `UnsupportedSchema`, `InvalidOption` or the registry's error.
    """
    if options.use_latest:
        target, chosen = _latest(options, topic, registry)
    else:
        target, chosen = _own(kind, derive, options, topic, registry)
    # Check the columns here, so that the error is not raised by a task.
    avro_writer(chosen, kind, target.schema_id)
    return target


def _latest(
    options: AvroOptions, topic: str | None, registry: RetryingRegistry
) -> tuple[AvroTarget, Schema]:
    subject = options.subject_of(topic, None)
    latest = registry.latest(subject)
    if latest is None:
        raise InvalidOption(
            f"use.latest.version, and the registry has no subject {subject}: register a schema, "
            f"with `headwater registry register {subject} FILE`"
        )
    chosen = registry.parsed(latest)
    return AvroTarget(latest.id, schema_text(chosen)), chosen


def _own(
    kind: "pa.DataType",
    derive: "Callable[[str], Schema]",
    options: AvroOptions,
    topic: str | None,
    registry: RetryingRegistry,
) -> tuple[AvroTarget, Schema]:
    if options.schema is not None:
        chosen = parse_schema(options.schema)
        text = options.schema
        subject = options.subject_of(topic, _record(chosen))
    else:
        name = _known_name(options, topic, registry)
        chosen = derive(name or record_name(topic, is_key=options.part == "key"))
        text = schema_text(chosen)
        subject = options.subject_of(topic, _record(chosen))
    avro_writer(chosen, kind, 1)
    return AvroTarget(_schema_id(subject, text, options, registry), schema_text(chosen)), chosen


def _schema_id(subject: str, text: str, options: AvroOptions, registry: RetryingRegistry) -> int:
    if not options.auto_register:
        known = registry.look_up(subject, text)
        if known is None:
            raise InvalidOption(
                f"the subject {subject} does not have this schema, and "
                f"auto.register.schemas is false: {text}"
            )
        return known.id
    try:
        return registry.register(subject, text)
    except SchemaIncompatible as error:
        reasons = registry.incompatibilities(subject, text)
        raise UnsupportedSchema(
            f"the rows' schema is incompatible with those of the subject {subject}: "
            f"{'; '.join(reasons) or error}"
        ) from error
    except RegistryResponseError as error:
        raise UnsupportedSchema(
            f"the registry rejected the schema of {subject}: {error}"
        ) from error


def _known_name(options: AvroOptions, topic: str | None, registry: RetryingRegistry) -> str | None:
    if options.subject is None and options.naming is not SubjectNaming.TOPIC:
        return None
    latest = registry.latest(options.subject_of(topic, None))
    return None if latest is None else _record(registry.parsed(latest))


def _record(schema: Schema) -> str | None:
    return name_of(schema) if isinstance(schema, Record) else None

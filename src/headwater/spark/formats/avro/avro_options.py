"""Avro and Protobuf options of sources and sinks: registry, subject, schema.

Names with dots are those of Confluent's serializers.

Note: a subject is only needed if a schema is read from the registry or registered. A source with
its own reader schema finds the writers' schemas by the ids in the records.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headwater.client.serialization.schema_registry_settings import (
    NAMES,
    OWN_NAMES,
    URL,
    registry_settings,
)
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.value_formats import ValueFormat
from headwater.spark.options import SparkOptions

AUTO_REGISTER: Final = "auto.register.schemas"
USE_LATEST: Final = "use.latest.version"
ACCESS_NAMES: Final = tuple(dict.fromkeys((*OWN_NAMES, *NAMES)))
SOURCE_NAMES: Final = (
    *ACCESS_NAMES,
    *(
        name
        for part in ("key", "value")
        for name in (
            f"{part}Schema",
            f"{part}Message",
            f"{part}Subject",
            f"{part}.subject.name.strategy",
        )
    ),
)
SINK_NAMES: Final = (
    *SOURCE_NAMES,
    AUTO_REGISTER,
    USE_LATEST,
    "keySchemaId",
    "valueSchemaId",
)


class SubjectNaming(Enum):
    """Subject name strategy."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """URL and client settings of a registry, under Confluent's names."""

    url: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroOptions:
    """Avro options of a key or a value."""

    part: str
    registry: RegistryAccess
    schema: str | None = None
    subject: str | None = None
    naming: SubjectNaming = SubjectNaming.TOPIC
    auto_register: bool = True
    use_latest: bool = False
    # Id of the schema, if known; then the registry is not needed.
    schema_id: int | None = None
    # Full name of the message of Protobuf; without it the first one of the schema.
    message: str | None = None

    def subject_of(self, topic: str | None, record: str | None) -> str:
        """Return the subject. Raises `InvalidOption` if its strategy lacks a name."""
        if self.subject is not None:
            return self.subject
        option = f"{self.part}Subject"
        if topic is None and self.naming is not SubjectNaming.RECORD:
            raise InvalidOption(
                f"which subject of the registry? Set {option}, in a pipeline subject, or one topic"
            )
        if record is None and self.naming is not SubjectNaming.TOPIC:
            raise InvalidOption(
                f"{self.naming.value} needs a record: set {self.part}Schema, or {option}"
            )
        match self.naming:
            case SubjectNaming.TOPIC:
                return f"{topic}-{self.part}"
            case SubjectNaming.RECORD:
                return str(record)
            case SubjectNaming.TOPIC_RECORD:
                return f"{topic}-{record}"


@dataclass(frozen=True, slots=True)
class AvroTarget:
    """The schema that rows are written with, including its references."""

    schema_id: int
    schema: str
    is_protobuf: bool = False


def read_avro(
    options: SparkOptions, formats: Mapping[str, ValueFormat], names: Collection[str]
) -> dict[str, AvroOptions]:
    """Read the options of `key` and `value`, if Avro or Protobuf; `names` are allowed."""
    parts = [part for part, each in formats.items() if each.has_registry]
    if not parts:
        for name in names:
            if options.get(name) is not None:
                raise InvalidOption(
                    f"{name} has no meaning without keyFormat or valueFormat avro or protobuf"
                )
        return {}
    for part in ("key", "value"):
        name = f"{part}Message"
        if options.get(name) is not None and formats.get(part) is not ValueFormat.PROTOBUF:
            raise InvalidOption(f"{name} has no meaning without {part}Format protobuf")
    given = {name: options.get(name) for name in ACCESS_NAMES}
    present = {name: value for name, value in given.items() if value is not None}
    registry = registry_access({**options.shared, **present})
    if registry is None:
        raise InvalidOption(
            f"{parts[0]}Format={formats[parts[0]].value} needs {URL}, such as http://127.0.0.1:8081"
        )
    return {part: _of(options, part, registry) for part in parts}


def registry_access(shared: Mapping[str, str], url: str | None = None) -> RegistryAccess | None:
    """Return the registry of the settings or the URL; None without either."""
    settings = registry_settings(shared)
    there = settings.pop(URL, None)
    chosen = url or there
    return None if not chosen else RegistryAccess(chosen, settings)


def known_schemas(given: Mapping[str, str], targets: Mapping[str, AvroTarget]) -> dict[str, str]:
    """Return a sink's options with the schemas that were found for it.

    Spark reads the options again for every batch of a stream. Without this, an unavailable registry
    would fail a running query, and a newer version would change its schema.
    """
    found = {name: text for name, text in given.items() if name.lower() != USE_LATEST}
    for part, target in targets.items():
        own = {f"{part}Schema".lower(), f"{part}SchemaId".lower()}
        found = {name: text for name, text in found.items() if name.lower() not in own}
        found[f"{part}Schema"] = target.schema
        found[f"{part}SchemaId"] = str(target.schema_id)
    return found


def _of(options: SparkOptions, part: str, registry: RegistryAccess) -> AvroOptions:
    found = AvroOptions(
        part=part,
        registry=registry,
        schema=options.get(f"{part}Schema"),
        subject=options.get(f"{part}Subject"),
        message=options.get(f"{part}Message"),
        naming=_naming(options, f"{part}.subject.name.strategy"),
        auto_register=options.flag(AUTO_REGISTER, default=True),
        use_latest=options.flag(USE_LATEST, default=False),
        schema_id=options.number(f"{part}SchemaId", 1),
    )
    if found.schema_id is not None and found.schema is None:
        raise InvalidOption(f"{part}SchemaId is the id of {part}Schema, which is missing")
    if found.schema is not None and found.use_latest:
        raise InvalidOption(f"{part}Schema and {USE_LATEST} exclude each other")
    return found


def _naming(options: SparkOptions, name: str) -> SubjectNaming:
    """Return the strategy; accepts Confluent's full class names."""
    text = options.get(name)
    if text is None:
        return SubjectNaming.TOPIC
    for each in SubjectNaming:
        if text.rpartition(".")[2] == each.value:
            return each
    known = ", ".join(each.value for each in SubjectNaming)
    raise InvalidOption(f"{name} must be one of {known}, not {text}")

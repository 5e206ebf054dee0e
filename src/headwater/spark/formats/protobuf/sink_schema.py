"""Choose the schema with which a column is written, before the first row.

It is the one that is given, the latest of the subject, or one that follows from the types of the
columns:

    tinyint, smallint, int   int32        string     string
    bigint                   int64        binary     bytes
    float, double            the same     struct     a nested message
    boolean                  bool         array      repeated
    timestamp                Timestamp    map        map

Such a schema keeps the field numbers of the subject's latest version, and new fields have the next
ones.
"""

import re
from typing import TYPE_CHECKING, Final

from headwater.client.schema_registry import RegistryResponseError, SchemaIncompatible
from headwater.schemas.errors import UnsupportedSchema
from headwater.schemas.protobuf.canonical_form import canonical
from headwater.schemas.protobuf.message_indexes import name_at
from headwater.schemas.protobuf.schema import Field, FieldType, MapType, MessageType, ProtoFile
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.arrow_types import arrow_type
from headwater.spark.formats.avro.avro_options import AvroOptions, AvroTarget
from headwater.spark.formats.avro.reader_schema import missing_subject
from headwater.spark.formats.avro.spark_schema import record_name
from headwater.spark.formats.protobuf.named_message import NamedMessage, named
from headwater.spark.formats.protobuf.protobuf_writer import protobuf_writer
from headwater.spark.formats.protobuf.registry_cache import ProtobufRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType, StructField, StructType

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_TIMESTAMP_FILE: Final = "google/protobuf/timestamp.proto"
_SCALARS: Final = {
    "boolean": "bool",
    "byte": "int32",
    "short": "int32",
    "integer": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "timestamp": _TIMESTAMP,
}
_KEYS: Final = frozenset({"bool", "int32", "int64", "string"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RUNTIMES_OWN: Final = range(19_000, 20_000)


def targets_of(
    schema: "StructType", options: "Mapping[str, AvroOptions]", topic: str | None
) -> dict[str, AvroTarget]:
    """Return the target schema of each Protobuf column.

    Raises `UnsupportedSchema`, `InvalidOption` or the registry's error.
    """
    found = {}
    for part, each in options.items():
        if part not in schema.names:
            raise InvalidOption(f"{part}Format=protobuf, and there is no column {part}")
        if each.schema_id is not None and each.schema is not None:
            found[part] = AvroTarget(each.schema_id, each.schema, is_protobuf=True)
            continue
        registry = ProtobufRegistry(each.registry)
        try:
            found[part] = _target(schema[part], each, topic, registry)
        finally:
            registry.close()
    return found


def _target(
    field: "StructField", options: AvroOptions, topic: str | None, registry: ProtobufRegistry
) -> AvroTarget:
    if options.use_latest:
        subject = options.subject_of(topic, options.message)
        latest = registry.latest(subject)
        if latest is None:
            raise InvalidOption(missing_subject(subject))
        imports, _ = registry.imports_and_schema(latest)
        chosen = named(latest.schema, options.message, imports)
        _check(chosen, field)
        return AvroTarget(latest.id, chosen.as_text(), is_protobuf=True)
    if options.schema is not None:
        chosen = named(options.schema, options.message, {})
    else:
        chosen = _derived(field, options, topic, registry)
    _check(chosen, field)
    subject = options.subject_of(topic, chosen.message)
    schema_id = _schema_id(subject, chosen.schema, options, registry)
    return AvroTarget(schema_id, chosen.as_text(), is_protobuf=True)


def _check(chosen: NamedMessage, field: "StructField") -> None:
    """Whether the columns fit is told now, and not by a task."""
    protobuf_writer(chosen.parsed(), chosen.message, arrow_type(field.dataType, field.name), 1)


def _derived(
    field: "StructField", options: AvroOptions, topic: str | None, registry: ProtobufRegistry
) -> NamedMessage:
    latest = None
    if options.subject is not None or topic is not None:
        latest = registry.latest(options.subject_of(topic, options.message or "row"))
    package, name = "", record_name(topic, is_key=options.part == "key")
    former: MessageType | None = None
    if latest is not None:
        file = registry.imports_and_schema(latest)[1].file
        if file.messages and name_at(file, (0,)) is not None:
            package, former = file.package, file.messages[0]
            name = former.name
    text = canonical(schema_of(field.dataType, name, package, former))
    return named(text, None, {})


def schema_of(
    kind: "DataType", name: str, package: str = "", former: MessageType | None = None
) -> ProtoFile:
    """A file with one message for a struct; `former` is the message before."""
    from pyspark.sql import types

    if not isinstance(kind, types.StructType):
        raise UnsupportedSchema(f"Protobuf needs a struct, not {kind.simpleString()}")
    message = _message(kind, name, "value", former)
    uses_time = _TIMESTAMP in canonical(ProtoFile(messages=(message,)))
    return ProtoFile(
        syntax="proto3",
        package=package,
        imports=(_TIMESTAMP_FILE,) if uses_time else (),
        messages=(message,),
    )


def _message(kind: "StructType", name: str, what: str, former: MessageType | None) -> MessageType:
    numbers = {} if former is None else {each.name: each.number for each, _ in former.all_fields()}
    taken = set(numbers.values())
    nested: list[MessageType] = []
    fields = []
    for each in kind.fields:
        if _NAME.fullmatch(each.name) is None:
            raise UnsupportedSchema(
                f"the column {each.name!r} has a name that Protobuf does not allow: give it one "
                "of letters, digits and _"
            )
        number = numbers.get(each.name) or _next_number(taken)
        taken.add(number)
        place = f"{what}.{each.name}"
        label, found = _field_type(each.dataType, each.name, place, former, nested)
        fields.append(Field(name=each.name, number=number, type=found, label=label))
    return MessageType(name=name, fields=tuple(fields), messages=tuple(nested))


def _next_number(taken: set[int]) -> int:
    number = max(taken, default=0) + 1
    return _RUNTIMES_OWN.stop if number in _RUNTIMES_OWN else number


def _field_type(
    kind: "DataType",
    name: str,
    what: str,
    former: MessageType | None,
    nested: list[MessageType],
) -> tuple[str | None, FieldType]:
    """The label and type of a field; its message goes to `nested`."""
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType):
        return "repeated", _plain_type(kind.elementType, name, f"{what}[]", former, nested)
    if isinstance(kind, types.MapType):
        key = _plain_type(kind.keyType, name, what, former, nested)
        if key not in _KEYS:
            raise UnsupportedSchema(f"{what} is a map whose keys are {key}")
        return None, MapType(key, _plain_type(kind.valueType, name, f"{what}[]", former, nested))
    found = _plain_type(kind, name, what, former, nested)
    is_message = found == _TIMESTAMP or found not in _SCALARS.values()
    return None if is_message else "optional", found


def _plain_type(
    kind: "DataType",
    name: str,
    what: str,
    former: MessageType | None,
    nested: list[MessageType],
) -> str:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        own = "".join(word[:1].upper() + word[1:] for word in name.split("_") if word) or "Row"
        own = f"{own}Message" if own == name else own
        inner = () if former is None else former.messages
        nested.append(
            _message(kind, own, what, next((each for each in inner if each.name == own), None))
        )
        return own
    found = _SCALARS.get("string" if isinstance(kind, types.StringType) else kind.typeName())
    if found is None:
        raise UnsupportedSchema(
            f"{what} is {kind.simpleString()}, for which there is no Protobuf type here: cast it, "
            "or set the schema"
        )
    return found


def _schema_id(subject: str, text: str, options: AvroOptions, registry: ProtobufRegistry) -> int:
    if not options.auto_register:
        known = registry.look_up_protobuf(subject, text)
        if known is None:
            raise InvalidOption(
                f"the subject {subject} has not this schema, and auto.register.schemas is false: "
                f"{text}"
            )
        return known.id
    try:
        return registry.register_protobuf(subject, text)
    except SchemaIncompatible as error:
        reasons = registry.protobuf_incompatibilities(subject, text)
        raise UnsupportedSchema(
            f"the rows' schema is incompatible with those of the subject {subject}: "
            f"{'; '.join(reasons) or error}"
        ) from error
    except RegistryResponseError as error:
        raise UnsupportedSchema(f"the registry refuses the schema of {subject}: {error}") from error

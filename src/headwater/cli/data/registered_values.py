"""Decode and encode keys and values of commands with schemas from a registry.

Data is JSON in the encoding of the REST API and of Confluent's console tools: an Avro union is null
or an object with the name of its branch.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headwater.cli.terminal import registry_settings

if TYPE_CHECKING:
    from headwater.client.schema_registry import RegisteredSchema, SchemaRegistry
    from headwater.rest.formats.schema_formats import SchemaCodec

AUTO: Final = "auto"
RAW: Final = "raw"
_TYPES: Final = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
_NAMES: Final = {schema_type: name for name, schema_type in _TYPES.items()}
_SUFFIXES: Final = {".avsc": "avro", ".json": "json-schema", ".proto": "protobuf"}
FORMATS: Final = (AUTO, RAW, *_TYPES)
PREFIX_BYTES: Final = 5
"""A zero byte and the schema id."""
_CACHED_MAX: Final = 1_000


def _known_format(value: str) -> str:
    if value not in FORMATS:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(FORMATS)}")
    return value


Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        envvar="HEADWATER_REGISTRY",
        help="Schema registry; default: schema.registry.url of --command-config.",
    ),
]
ValueFormat = Annotated[
    str,
    typer.Option(
        "--value-format",
        metavar="FORMAT",
        callback=_known_format,
        help="Format of values: avro, json-schema, protobuf, raw, or auto: with a registry, by the "
        "schema.",
    ),
]
KeyFormat = Annotated[
    str,
    typer.Option(
        "--key-format",
        metavar="FORMAT",
        callback=_known_format,
        help="Format of keys, as for --value-format.",
    ),
]
Decode = Callable[[bytes], Any]


@contextmanager
def registry_of(url: str | None, command_config: Path | None) -> "Iterator[SchemaRegistry | None]":
    """A client of the registry, or None if none is known."""
    from headwater.client.schema_registry import SchemaRegistry
    from headwater.client.serialization.schema_registry_settings import URL

    settings = registry_settings(command_config)
    if url is None and URL not in settings:
        yield None
        return
    with SchemaRegistry(url, settings) as registry:
        yield registry


def expect_registry(registry: object, formats: "tuple[str, ...]") -> None:
    """Fail if a format needs a registry and none is known."""
    for each in formats:
        if registry is None and each in _TYPES:
            raise typer.BadParameter(f"{each} needs a schema registry: give --registry URL")


class RegisteredDecoder:
    """Decode bytes that start with the id of a schema."""

    def __init__(self, registry: "SchemaRegistry") -> None:
        from headwater.client.serialization.schema_registry_serde import BoundedCache

        self._registry = registry
        self._codecs: BoundedCache[tuple[str, SchemaCodec]] = BoundedCache(_CACHED_MAX)

    def decoder(self, wanted: str) -> Decode:
        """Return a function that raises `SerializationFailed` for what it cannot decode."""
        if wanted == RAW:
            return bytes
        return lambda raw: self._decoded(raw, wanted)

    def _decoded(self, raw: bytes, wanted: str) -> Any:
        from headwater.client.errors import SerializationFailed

        is_framed = len(raw) >= PREFIX_BYTES and raw[0] == 0
        if not is_framed:
            if wanted == AUTO:
                return raw
            raise SerializationFailed("it does not start with byte 0 and a schema id")
        found, codec = self._codecs.get(int.from_bytes(raw[1:PREFIX_BYTES], "big"), self._codec)
        if wanted not in (AUTO, found):
            raise SerializationFailed(f"its schema is {found}, not {wanted}")
        return codec.decode(raw[PREFIX_BYTES:])

    def _codec(self, schema_id: int) -> "tuple[str, SchemaCodec]":
        from headwater.client.errors import SerializationFailed
        from headwater.client.schema_registry import SchemaNotFound

        try:
            schema = self._registry.schema(schema_id)
        except SchemaNotFound as error:
            raise SerializationFailed(f"the registry has no schema with id {schema_id}") from error
        return _NAMES.get(schema.schema_type, schema.schema_type), _codec(self._registry, schema)


def encoder(
    registry: "SchemaRegistry", subject: str, wanted: str, schema_file: Path | None
) -> Callable[[bytes], bytes]:
    """Return a function from JSON to bytes with a file's or the latest schema.

    The schema of a file is registered if the subject does not have it.
    """
    schema = (
        _latest(registry, subject, wanted)
        if schema_file is None
        else _registered(registry, subject, wanted, schema_file)
    )
    codec = _codec(registry, schema)
    prefix = b"\0" + schema.id.to_bytes(4, "big")
    return lambda line: prefix + codec.encode(json.loads(line))


def _latest(registry: "SchemaRegistry", subject: str, wanted: str) -> "RegisteredSchema":
    from headwater.client.errors import SerializationFailed
    from headwater.client.schema_registry import SchemaNotFound

    try:
        found = registry.version(subject)
    except SchemaNotFound as error:
        option = "--key-schema" if subject.endswith("-key") else "--value-schema"
        raise SerializationFailed(
            f"the registry has no subject {subject}; register a schema with {option} FILE"
        ) from error
    name = _NAMES.get(found.schema_type, found.schema_type)
    if wanted not in (AUTO, name):
        raise SerializationFailed(f"the schema of {subject} is {name}, not {wanted}")
    return found


def _registered(
    registry: "SchemaRegistry", subject: str, wanted: str, file: Path
) -> "RegisteredSchema":
    from headwater.client.schema_registry import RegisteredSchema

    name = _SUFFIXES.get(file.suffix) if wanted == AUTO else wanted
    if name not in _TYPES:
        raise typer.BadParameter(f"{file}: which format? give --value-format or --key-format")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {file}: {error}") from error
    schema_id = registry.register(subject, text, (), schema_type=_TYPES[name])
    return RegisteredSchema(id=schema_id, schema=text, schema_type=_TYPES[name])


def _codec(registry: "SchemaRegistry", schema: "RegisteredSchema") -> "SchemaCodec":
    from headwater.rest.formats.schema_formats import CODECS

    return CODECS[schema.schema_type](registry, schema)

"""Records of `_schemas`: JSON in the format of Confluent's registry.

Note: compaction compares keys as bytes, and other registries may order a key's fields differently.
So a key that was read before is written with exactly the bytes that were read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TOPIC: Final = "_schemas"

_KNOWN: Final = frozenset(
    ["subject", "version", "id", "schema", "schemaType", "references", "deleted"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A name that a schema uses, and the version that defines it."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaKey:
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """Config of a subject, or the global config without one."""

    subject: str | None


@dataclass(frozen=True, slots=True)
class ModeKey:
    subject: str | None


@dataclass(frozen=True, slots=True)
class DeleteSubjectKey:
    subject: str


@dataclass(frozen=True, slots=True)
class ClearSubjectKey:
    """Written by an import: the ids of this subject are removed."""

    subject: str | None


Key = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaValue:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    is_deleted: bool = False
    # Fields that another registry wrote and that are unused here; they are preserved.
    others: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        written: dict[str, Any] = {
            "subject": self.subject,
            "version": self.version,
            "id": self.id,
            **self.others,
        }
        if self.schema_type != "AVRO":
            written["schemaType"] = self.schema_type
        if self.references:
            written["references"] = [each.as_json() for each in self.references]
        return {**written, "schema": self.schema, "deleted": self.is_deleted}


Value = SchemaValue | Mapping[str, Any] | None
"""None is a tombstone. Values that are no schemas stay plain JSON objects."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the topic, or one to write."""

    key: Key
    value: Value


def key_bytes(key: Key) -> bytes:
    match key:
        case SchemaKey():
            named: dict[str, Any] = {"keytype": "SCHEMA", "subject": key.subject}
            return _dumped({**named, "version": key.version, "magic": 1})
        case ConfigKey():
            return _dumped(_keyed("CONFIG", key.subject))
        case ModeKey():
            return _dumped(_keyed("MODE", key.subject))
        case DeleteSubjectKey():
            return _dumped(_keyed("DELETE_SUBJECT", key.subject))
        case ClearSubjectKey():
            return _dumped(_keyed("CLEAR_SUBJECT", key.subject))


def value_bytes(value: Value) -> bytes | None:
    if value is None:
        return None
    return _dumped(value.as_json() if isinstance(value, SchemaValue) else dict(value))


def read_entry(key: bytes | None, value: bytes | None) -> Entry | None:
    """Parse a record; None for a NOOP or an unknown key type.

    Raises ValueError if the key type is known and the record is malformed.
    """
    if key is None:
        return None
    found = _read_key(json.loads(key))
    if found is None:
        return None
    if value is None:
        return Entry(found, None)
    given = json.loads(value)
    if not isinstance(given, dict):
        raise ValueError(f"value is not a JSON object: {given!r}")
    return Entry(found, _schema_value(given) if isinstance(found, SchemaKey) else given)


def _read_key(given: Any) -> Key | None:
    match given:
        case {"keytype": "SCHEMA", "subject": str() as subject, "version": int() as version}:
            return SchemaKey(subject=subject, version=version)
        case {"keytype": "DELETE_SUBJECT", "subject": str() as subject}:
            return DeleteSubjectKey(subject)
        case {"keytype": "CONFIG"}:
            return ConfigKey(given.get("subject") or None)
        case {"keytype": "MODE"}:
            return ModeKey(given.get("subject") or None)
        case {"keytype": "CLEAR_SUBJECT"}:
            return ClearSubjectKey(given.get("subject") or None)
        case {"keytype": "SCHEMA" | "DELETE_SUBJECT"}:
            raise ValueError(f"key lacks required fields: {given!r}")
        case _:
            return None


def _schema_value(given: dict[str, Any]) -> SchemaValue:
    match given:
        case {
            "subject": str() as subject,
            "version": int() as version,
            "id": int() as schema_id,
            "schema": str() as schema,
        }:
            return SchemaValue(
                subject=subject,
                version=version,
                id=schema_id,
                schema=schema,
                schema_type=given.get("schemaType") or "AVRO",
                references=read_references(given.get("references")),
                is_deleted=bool(given.get("deleted")),
                others={key: each for key, each in given.items() if key not in _KNOWN},
            )
        case _:
            raise ValueError("schema value lacks required fields")


def read_references(given: Any) -> tuple[Reference, ...]:
    """Parse references; ValueError if they are malformed."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ValueError("references must be a list")
    found = []
    for each in given:
        match each:
            case {"name": str() as name, "subject": str() as subject, "version": int() as version}:
                found.append(Reference(name=name, subject=subject, version=version))
            case _:
                raise ValueError("a reference needs name, subject and version")
    return tuple(found)


def _keyed(kind: str, subject: str | None) -> dict[str, Any]:
    named = {} if subject is None else {"subject": subject}
    return {"keytype": kind, **named, "magic": 0}


def _dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

"""The registry's state, built from the records of `_schemas`.

Invariant: only `apply` changes it. A command returns entries; they take effect when they are read
back from the topic, like the entries of other instances.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import Any, Final

from headwater.registry.schemas_topic_records import (
    ClearSubjectKey,
    ConfigKey,
    DeleteSubjectKey,
    Entry,
    Key,
    ModeKey,
    Reference,
    SchemaKey,
    SchemaValue,
)

DEFAULT_LEVEL: Final = "BACKWARD"
DEFAULT_MODE: Final = "READWRITE"

Identity = tuple[str, str, tuple[Reference, ...]]
"""Schemas with the same type, text and references are the same schema."""


def identity(of: SchemaValue) -> Identity:
    return (of.schema_type, of.schema, of.references)


def guid_of(schema: SchemaValue) -> str | None:
    """A schema's GUID as in Confluent's registry: digest of text and references.

    None for a schema with metadata or rules, which the digest includes and which are not supported
    here.
    """
    if schema.others.get("metadata") or schema.others.get("ruleSet"):
        return None
    digest = md5(schema.schema.encode("utf-8", "replace"), usedforsecurity=False)
    for each in schema.references:
        digest.update(each.name.encode("utf-8", "replace"))
        digest.update(each.subject.encode("utf-8", "replace"))
        digest.update((each.version & 0xFFFFFFFF).to_bytes(4))
    text = digest.hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@dataclass(slots=True)
class State:
    subjects: dict[str, dict[int, SchemaValue]] = field(default_factory=dict)
    """Versions by number, including soft-deleted ones."""
    schemas: dict[int, SchemaValue] = field(default_factory=dict)
    """By id: the first version that has it."""
    ids: dict[Identity, int] = field(default_factory=dict)
    configs: dict[str | None, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str | None, str] = field(default_factory=dict)
    raw_keys: dict[Key, bytes] = field(default_factory=dict)
    """The bytes of each key as last read."""
    id_max: int = 0
    guids: dict[str, int] = field(default_factory=dict)
    """Ids by GUID."""
    _uses: dict[int, dict[tuple[str, int], None]] = field(default_factory=dict)
    """Subjects and versions by schema id."""
    _referring: dict[str, dict[tuple[str, int], None]] = field(default_factory=dict)
    """Subjects and versions by a subject that they refer to."""

    def snapshot(self) -> "State":
        """Return a copy that other threads can read while this state changes.

        The versions of a subject are shared, since `apply` replaces and never mutates them. The
        indexes are shared too: they only contain names of versions, which are looked up in the
        copy.
        """
        return replace(
            self,
            subjects=dict(self.subjects),
            schemas=dict(self.schemas),
            ids=dict(self.ids),
            configs=dict(self.configs),
            modes=dict(self.modes),
            raw_keys={},
            guids=dict(self.guids),
        )

    def apply(self, entry: Entry, raw_key: bytes | None = None) -> None:
        """Apply one record of the topic."""
        key, value = entry.key, entry.value
        if raw_key is not None:
            self.raw_keys[key] = raw_key
        match key:
            case SchemaKey():
                assert value is None or isinstance(value, SchemaValue)
                self._apply_schema(key, value)
            case ConfigKey():
                _put(self.configs, key.subject, None if value is None else _plain(value))
            case ModeKey():
                mode = None if value is None else _plain(value).get("mode")
                _put(self.modes, key.subject, mode if isinstance(mode, str) else None)
            case DeleteSubjectKey():
                if value is not None:
                    self._apply_delete(key.subject, _plain(value).get("version"))
            case ClearSubjectKey():
                self._forget_ids(key.subject)

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaValue]:
        """Versions in order; with `deleted`, soft-deleted ones too."""
        found = self.subjects.get(subject, {})
        every = [found[number] for number in sorted(found)]
        return every if deleted else [each for each in every if not each.is_deleted]

    def has(self, subject: str, *, deleted: bool = False) -> bool:
        return bool(self.versions(subject, deleted=deleted))

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[SchemaValue]:
        """All versions that have this id."""
        return [
            each
            for each in self._named_by(self._uses.get(schema_id, {}), deleted=deleted)
            if each.id == schema_id
        ]

    def referrers(self, subject: str, version: int, *, deleted: bool) -> list[SchemaValue]:
        """Versions that refer to this one."""
        return [
            each
            for each in self._named_by(self._referring.get(subject, {}), deleted=deleted)
            if any(
                ref.subject == subject and self._number(ref) == version for ref in each.references
            )
        ]

    def _named_by(
        self, index: dict[tuple[str, int], None], *, deleted: bool
    ) -> Iterator[SchemaValue]:
        """Versions that an index names, in order, if this state has them."""
        for subject, number in sorted(index):
            found = self.subjects.get(subject, {}).get(number)
            if found is not None and (deleted or not found.is_deleted):
                yield found

    def _number(self, reference: Reference) -> int:
        if reference.version != -1:
            return reference.version
        latest = self.versions(reference.subject)
        return latest[-1].version if latest else -1

    def level_of(self, subject: str | None) -> str:
        """The compatibility level that applies to the subject."""
        for name in (subject, None):
            level = self.configs.get(name, {}).get("compatibilityLevel")
            if isinstance(level, str):
                return level
        return DEFAULT_LEVEL

    def normalizes(self, subject: str) -> bool:
        for name in (subject, None):
            wanted = self.configs.get(name, {}).get("normalize")
            if wanted is not None:
                return wanted is True
        return False

    def mode_of(self, subject: str | None) -> str:
        """The mode that applies. A global READONLY_OVERRIDE wins over the subject's mode."""
        global_mode = self.modes.get(None, DEFAULT_MODE)
        if global_mode == "READONLY_OVERRIDE":
            return global_mode
        return self.modes.get(subject, global_mode)

    def _apply_schema(self, key: SchemaKey, value: SchemaValue | None) -> None:
        versions = dict(self.subjects.get(key.subject, {}))
        previous = versions.pop(key.version, None)
        if value is None:
            self._put_versions(key.subject, versions)
            if previous is not None:
                self._unindex(previous)
                self._tombstoned(previous)
            return
        self.id_max = max(self.id_max, value.id)
        known = self.schemas.get(value.id)
        if known is not None and identity(known) != identity(value):
            # Two concurrent writers assigned the same id; the first one keeps it.
            return
        if previous is not None:
            self._unindex(previous)
        versions[key.version] = value
        self._put_versions(key.subject, versions)
        self._index(value)
        self.schemas.setdefault(value.id, value)
        self.ids.setdefault(identity(value), value.id)
        guid = guid_of(value)
        if guid is not None:
            self.guids.setdefault(guid, value.id)

    def _put_versions(self, subject: str, versions: dict[int, SchemaValue]) -> None:
        if versions:
            self.subjects[subject] = versions
        else:
            self.subjects.pop(subject, None)

    def _index(self, version: SchemaValue) -> None:
        location = (version.subject, version.version)
        self._uses.setdefault(version.id, {})[location] = None
        for each in version.references:
            self._referring.setdefault(each.subject, {})[location] = None

    def _unindex(self, version: SchemaValue) -> None:
        location = (version.subject, version.version)
        self._uses.get(version.id, {}).pop(location, None)
        for each in version.references:
            self._referring.get(each.subject, {}).pop(location, None)

    def _tombstoned(self, previous: SchemaValue) -> None:
        """Remove an id without versions. It is not assigned again while the process runs."""
        remaining = self.uses(previous.id, deleted=True)
        if remaining:
            self.schemas[previous.id] = remaining[0]
            return
        self._forget(previous)

    def _forget(self, schema: SchemaValue) -> None:
        self.schemas.pop(schema.id, None)
        self.ids.pop(identity(schema), None)
        self._uses.pop(schema.id, None)
        guid = guid_of(schema)
        if guid is not None and self.guids.get(guid) == schema.id:
            del self.guids[guid]

    def _apply_delete(self, subject: str, till_version: Any) -> None:
        if not isinstance(till_version, int):
            return
        self._put_versions(
            subject,
            {
                number: replace(each, is_deleted=True) if number <= till_version else each
                for number, each in self.subjects.get(subject, {}).items()
            },
        )

    def _forget_ids(self, subject: str | None) -> None:
        for schema_id in [
            each.id for each in self.schemas.values() if subject in (None, each.subject)
        ]:
            if not self.uses(schema_id, deleted=True):
                self._forget(self.schemas[schema_id])


def _plain(value: Any) -> dict[str, Any]:
    assert not isinstance(value, SchemaValue)
    return dict(value)


def _put(where: dict[str | None, Any], key: str | None, value: Any) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value

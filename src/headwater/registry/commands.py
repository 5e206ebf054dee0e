"""Decide changes to the registry: entries to write, and the response.

The response is sent once the entries are committed. Raises `RestError` for rejected requests.

Pure, so a decision that another instance's write made obsolete is simply taken again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headwater.registry.registry_errors import (
    INVALID_COMPATIBILITY,
    INVALID_MODE,
    RestError,
    id_in_use,
    incompatible_schema,
    invalid_compatibility,
    invalid_mode,
    invalid_schema,
    invalid_subject,
    not_in_mode,
    not_permitted,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from headwater.registry.registry_state import DEFAULT_LEVEL, DEFAULT_MODE, State, identity
from headwater.registry.schema_submission import Resolved, Submitted, incompatibilities, resolve
from headwater.registry.schemas_topic_records import (
    ClearSubjectKey,
    ConfigKey,
    DeleteSubjectKey,
    Entry,
    ModeKey,
    SchemaKey,
    SchemaValue,
)

LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")

_SUBJECT_MAX: Final = 2000
_CONFIGS: Final = ("compatibility", "normalize")


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """Entries to write, and the response. Without entries nothing is written."""

    entries: Sequence[Entry]
    answer: Any


def register(
    state: State, subject: str, given: Submitted, *, normalize: bool = False, force: bool = False
) -> RegistryChange:
    """Assign an id to a schema and make it the next version of a subject.

    `force` skips the compatibility check. The answer is the registered version.
    """
    _check_subject(subject)
    _check_register_mode(state, subject, given)
    resolved = resolve(state, given, normalize=normalize or state.normalizes(subject))
    known_id = state.ids.get(resolved.identity)
    is_new = given.id in (-1, known_id)
    if given.version == 0 and is_new:
        for each in reversed(state.versions(subject)):
            if identity(each) == resolved.identity:
                return RegistryChange((), each)
    if state.mode_of(subject) != "IMPORT" and not force:
        _check_compatible(state, subject, resolved)
    every = state.versions(subject, deleted=True)
    version = _next_version(state, subject, given, every)
    schema_id = given.id if given.id >= 0 else known_id
    if schema_id is None:
        schema_id = state.id_max + 1
    _check_id(state, schema_id, resolved)
    value = SchemaValue(
        subject=subject,
        version=version,
        id=schema_id,
        schema=resolved.text,
        schema_type=resolved.schema_type,
        references=resolved.references,
    )
    # Registering a soft-deleted schema again replaces its old version by the new one.
    replaced = [
        Entry(_key(each), None)
        for each in every
        if each.is_deleted
        and each.id == schema_id
        and each.version < version
        and not state.referrers(subject, each.version, deleted=True)
    ]
    return RegistryChange((*replaced, Entry(_key(value), value)), value)


def _next_version(state: State, subject: str, given: Submitted, every: list[SchemaValue]) -> int:
    next_number = every[-1].version + 1 if every else 1
    if given.version <= 0:
        return next_number
    if given.version != next_number and state.mode_of(subject) != "IMPORT":
        raise invalid_schema("Version is not one more than previous version")
    return given.version


def _check_subject(subject: str) -> None:
    has_control = any(ord(each) < 32 or ord(each) == 127 for each in subject)
    # Subjects in a context start with ":"; contexts are not supported.
    if not subject.strip() or has_control or subject.startswith(":") or len(subject) > _SUBJECT_MAX:
        raise invalid_subject(subject)


def _check_register_mode(state: State, subject: str, given: Submitted) -> None:
    _check_writable(state, subject)
    mode = state.mode_of(subject)
    if given.id >= 0 and mode != "IMPORT":
        raise not_in_mode(subject, "is not in import mode")
    if given.id < 0 and mode != "READWRITE":
        raise not_in_mode(subject, "is not in read-write mode")


def _check_writable(state: State, subject: str | None) -> None:
    if state.mode_of(subject).startswith("READONLY"):
        raise not_in_mode(subject, "is in read-only mode")


def _check_compatible(state: State, subject: str, resolved: Resolved) -> None:
    found = incompatibilities(state, resolved, state.versions(subject), state.level_of(subject))
    if found:
        raise incompatible_schema(subject, found)


def _check_id(state: State, schema_id: int, resolved: Resolved) -> None:
    known = state.schemas.get(schema_id)
    if known is not None and identity(known) != resolved.identity:
        raise id_in_use(schema_id)


def delete_subject(state: State, subject: str, *, permanent: bool) -> RegistryChange:
    if not state.has(subject, deleted=True):
        raise subject_not_found(subject)
    if not permanent and not state.has(subject):
        raise subject_soft_deleted(subject)
    _check_writable(state, subject)
    versions = state.versions(subject, deleted=permanent)
    for each in versions:
        referrers = state.referrers(subject, each.version, deleted=permanent)
        if any(other.subject != subject for other in referrers):
            raise reference_exists(subject, each.version)
    if permanent and any(not each.is_deleted for each in versions):
        raise subject_not_soft_deleted(subject)
    numbers = [each.version for each in versions]
    if not permanent:
        value = {"subject": subject, "version": numbers[-1]}
        return RegistryChange((Entry(DeleteSubjectKey(subject), value),), numbers)
    # Delete later versions first, since they may refer to earlier ones.
    tombstones = [Entry(_key(each), None) for each in reversed(versions)]
    return RegistryChange((*tombstones, *_setting_tombstones(state, subject)), numbers)


def delete_version(state: State, subject: str, version: int, *, permanent: bool) -> RegistryChange:
    """Delete one version; -1 is the latest."""
    found = version_of(state, subject, version, deleted=True)
    if not permanent:
        if version == -1 and state.has(subject):
            found = state.versions(subject)[-1]
        if found.is_deleted:
            raise version_soft_deleted(subject, found.version)
    _check_writable(state, subject)
    if state.referrers(subject, found.version, deleted=permanent):
        raise reference_exists(subject, found.version)
    if not permanent:
        deleted = replace(found, is_deleted=True)
        return RegistryChange((Entry(_key(found), deleted),), found.version)
    if not found.is_deleted:
        raise version_not_soft_deleted(subject, found.version)
    is_last = len(state.versions(subject, deleted=True)) == 1
    others = _setting_tombstones(state, subject) if is_last else []
    return RegistryChange((Entry(_key(found), None), *others), found.version)


def version_of(state: State, subject: str, version: int, *, deleted: bool = False) -> SchemaValue:
    """Return one version; -1 is the latest."""
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise subject_not_found(subject)
    if version == -1:
        return versions[-1]
    for each in versions:
        if each.version == version:
            return each
    raise version_not_found(version)


def _setting_tombstones(state: State, subject: str) -> list[Entry]:
    found: list[Entry] = []
    if subject in state.modes:
        found.append(Entry(ModeKey(subject), None))
    if subject in state.configs:
        found.append(Entry(ConfigKey(subject), None))
    return found


def set_config(state: State, subject: str | None, body: dict[str, Any]) -> RegistryChange:
    if subject is not None:
        _check_subject(subject)
    unsupported = sorted(key for key, value in body.items() if value and key not in _CONFIGS)
    if unsupported:
        raise RestError(INVALID_COMPATIBILITY, f"{', '.join(unsupported)}: not supported")
    changed: dict[str, Any] = {}
    if body.get("compatibility") is not None:
        changed["compatibilityLevel"] = _level(body["compatibility"])
    if body.get("normalize") is not None:
        changed["normalize"] = body["normalize"] is True
    if not changed:
        raise invalid_compatibility()
    _check_writable(state, subject)
    named = {} if subject is None else {"subject": subject}
    value = {**named, **state.configs.get(subject, {}), **changed}
    answer = {key: body[key] for key in _CONFIGS if body.get(key) is not None}
    if "compatibility" in answer:
        answer["compatibility"] = changed["compatibilityLevel"]
    return RegistryChange((Entry(ConfigKey(subject), value),), answer)


def _level(given: Any) -> str:
    level = str(given).upper()
    if level not in LEVELS:
        raise invalid_compatibility()
    return level


def delete_config(state: State, subject: str | None) -> RegistryChange:
    """Fall back to the global config, or reset the global config to the default."""
    found = state.configs.get(subject)
    if found is None and subject is not None:
        raise subject_not_found(subject)
    _check_writable(state, subject)
    entries = () if found is None else (Entry(ConfigKey(subject), None),)
    return RegistryChange(entries, config_answer(found or {}))


def config_answer(config: dict[str, Any]) -> dict[str, Any]:
    answer = {"compatibilityLevel": config.get("compatibilityLevel", DEFAULT_LEVEL)}
    if config.get("normalize") is not None:
        answer["normalize"] = config["normalize"]
    return answer


def set_mode(
    state: State, subject: str | None, body: dict[str, Any], *, force: bool
) -> RegistryChange:
    if subject is not None:
        _check_subject(subject)
    mode = str(body.get("mode") or "").upper()
    if mode not in MODES:
        if mode == "FORWARD":
            raise RestError(INVALID_MODE, "Forward mode is not supported")
        raise invalid_mode()
    named = {} if subject is None else {"subject": subject}
    entry = Entry(ModeKey(subject), {**named, "mode": mode})
    answer = {"mode": mode}
    if mode != "IMPORT" or state.mode_of(subject) == "IMPORT" or force:
        return RegistryChange((entry,), answer)
    concerned = sorted(state.subjects) if subject is None else [subject]
    if any(state.has(each) for each in concerned):
        raise not_permitted("Cannot import since found existing subjects")
    remaining = [each for name in concerned for each in state.versions(name, deleted=True)]
    for each in remaining:
        if state.referrers(each.subject, each.version, deleted=True):
            raise reference_exists(each.subject, each.version)
    tombstones = [Entry(_key(each), None) for each in remaining]
    clear = Entry(ClearSubjectKey(subject), named)
    return RegistryChange((*tombstones, clear, entry), answer)


def delete_mode(state: State, subject: str | None) -> RegistryChange:
    found = state.modes.get(subject)
    if found is None and subject is not None:
        raise subject_not_found(subject)
    entries = () if found is None else (Entry(ModeKey(subject), None),)
    return RegistryChange(entries, {"mode": found or DEFAULT_MODE})


def _key(version: SchemaValue) -> SchemaKey:
    return SchemaKey(subject=version.subject, version=version.version)

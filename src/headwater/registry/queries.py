"""Answer the registry's read requests as JSON values, from the state alone."""

from collections.abc import Mapping
from typing import Any

from headwater.registry.commands import config_answer, version_of
from headwater.registry.registry_errors import (
    INVALID_SCHEMA,
    RestError,
    no_config_of_subject,
    no_mode_of_subject,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from headwater.registry.registry_state import State, guid_of, identity
from headwater.registry.schema_submission import (
    Submitted,
    incompatibilities,
    resolve,
    stored_root,
)
from headwater.registry.schema_types import SCHEMA_TYPES
from headwater.registry.schemas_topic_records import SchemaValue


def described(version: SchemaValue) -> dict[str, Any]:
    """A version in the REST API's form; `schemaType` is omitted for Avro.

    Confluent's registry does so too.
    """
    written: dict[str, Any] = {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
    }
    return written | schema_part(version)


def registered(version: SchemaValue, *, is_full: bool) -> dict[str, Any]:
    """Response to registering a schema: its id, or the version for newer clients."""
    if not is_full:
        return {"id": version.id}
    answer = described(version)
    del answer["subject"]
    return answer


def schema_part(version: SchemaValue) -> dict[str, Any]:
    written: dict[str, Any] = {}
    guid = guid_of(version)
    if guid is not None:
        written["guid"] = guid
    if version.schema_type != "AVRO":
        written["schemaType"] = version.schema_type
    if version.references:
        written["references"] = [each.as_json() for each in version.references]
    others = {key: version.others[key] for key in ("metadata", "ruleSet") if key in version.others}
    return {**written, **others, "schema": version.schema}


def schema_in_format(state: State, version: SchemaValue, wanted: str) -> str:
    """The schema in another format, such as `serialized` of Protobuf.

    Formats that its type does not have are ignored, as in Confluent's registry.
    """
    kind = SCHEMA_TYPES.get(version.schema_type)
    convert = None if kind is None else kind.formats.get(wanted.lower())
    return version.schema if convert is None else convert(stored_root(state, version))


def subjects(state: State, *, prefix: str, deleted: bool, deleted_only: bool) -> list[str]:
    found = []
    for subject in sorted(state.subjects):
        if not subject.startswith(prefix):
            continue
        is_alive = state.has(subject)
        if (is_alive and not deleted_only) or (not is_alive and (deleted or deleted_only)):
            found.append(subject)
    return found


def version_numbers(
    state: State,
    subject: str,
    *,
    deleted: bool,
    deleted_only: bool,
    deleted_as_negative: bool = False,
) -> list[int]:
    if not state.has(subject, deleted=deleted or deleted_only):
        raise subject_not_found(subject)
    if deleted_as_negative:
        every = state.versions(subject, deleted=True)
        return [-each.version if each.is_deleted else each.version for each in every]
    versions = state.versions(subject, deleted=deleted or deleted_only)
    return [each.version for each in versions if each.is_deleted or not deleted_only]


def all_schemas(
    state: State, *, prefix: str, deleted: bool, latest_only: bool
) -> list[dict[str, Any]]:
    found = []
    for subject in subjects(state, prefix=prefix, deleted=deleted, deleted_only=False):
        versions = state.versions(subject, deleted=deleted)
        chosen = versions[-1:] if latest_only else versions
        found += [described(each) for each in chosen]
    return found


def look_up(
    state: State, subject: str, given: Submitted, *, normalize: bool, deleted: bool
) -> SchemaValue:
    """Find the version of a subject that has this schema."""
    resolved = resolve(state, given, normalize=normalize or state.normalizes(subject))
    for each in reversed(state.versions(subject, deleted=deleted)):
        if identity(each) == resolved.identity:
            return each
    if not state.has(subject, deleted=deleted):
        raise subject_not_found(subject)
    raise schema_not_found()


def schema_by_id(state: State, schema_id: int) -> SchemaValue:
    found = state.schemas.get(schema_id)
    if found is None:
        raise schema_not_found(schema_id)
    return found


def schema_by_guid(state: State, text: str) -> SchemaValue:
    found = state.schemas.get(state.guids.get(text.lower(), -1))
    if found is None:
        raise schema_not_found(text)
    return found


def latest_with_metadata(
    state: State, subject: str, properties: Mapping[str, str], *, deleted: bool
) -> SchemaValue:
    """Find the latest version whose metadata has all these properties."""
    for each in reversed(state.versions(subject, deleted=deleted)):
        metadata = each.others.get("metadata")
        own = metadata.get("properties") if isinstance(metadata, dict) else None
        if isinstance(own, dict) and properties.items() <= own.items():
            return each
    if not state.has(subject, deleted=deleted):
        raise subject_not_found(subject)
    raise schema_not_found()


def versions_of_id(state: State, schema_id: int, *, deleted: bool) -> list[SchemaValue]:
    if schema_id not in state.schemas:
        raise schema_not_found()
    return state.uses(schema_id, deleted=deleted)


def referenced_by(state: State, subject: str, version: int, *, deleted: bool = False) -> list[int]:
    found = version_of(state, subject, version, deleted=True)
    return sorted({each.id for each in state.referrers(subject, found.version, deleted=deleted)})


def compatibility(
    state: State, subject: str, version: int | None, given: Submitted, *, normalize: bool
) -> list[str]:
    """Incompatibilities of a schema with one version, or by default with all."""
    versions = state.versions(subject)
    if version == -1:
        versions = versions[-1:]
    elif version is not None:
        versions = [each for each in versions if each.version == version]
        if not versions:
            raise version_not_found(version)
    resolved = resolve(state, given, normalize=normalize or state.normalizes(subject))
    return incompatibilities(state, resolved, versions, state.level_of(subject))


def compatibility_response(
    state: State,
    subject: str,
    version: int | None,
    given: Submitted,
    *,
    normalize: bool,
    verbose: bool,
) -> dict[str, Any]:
    """Response to a compatibility check. A verbose one includes parse errors."""
    try:
        found = compatibility(state, subject, version, given, normalize=normalize)
    except RestError as error:
        if not verbose or error.error_code != INVALID_SCHEMA:
            raise
        found = [error.message]
    answer: dict[str, Any] = {"is_compatible": not found}
    return answer | {"messages": found} if verbose else answer


def config(state: State, subject: str | None, *, or_global: bool) -> dict[str, Any]:
    found = state.configs.get(subject)
    if found is None and subject is not None:
        if not or_global:
            raise no_config_of_subject(subject)
        found = state.configs.get(None)
    return config_answer(found or {})


def mode(state: State, subject: str | None, *, or_global: bool) -> dict[str, str]:
    if subject is not None and subject not in state.modes and not or_global:
        raise no_mode_of_subject(subject)
    return {"mode": state.mode_of(subject)}

"""Every path of the registry, with what it asks or commands."""

from functools import partial
from typing import Any, Final

import headwater
from headwater.registry import commands, queries
from headwater.registry.registry_errors import (
    DELETE_CONFIG,
    DELETE_MODE,
    DELETE_SUBJECT,
    DELETE_VERSION,
    UPDATE_CONFIG,
    UPDATE_MODE,
    RestError,
)
from headwater.registry.schema_submission import read_submitted
from headwater.registry.schema_types import SCHEMA_TYPES
from headwater.registry.schemas_topic_records import SchemaValue
from headwater.registry.server import Raw, RegistryRequest, RegistryRoute, read_number

_EVERYWHERE: Final = ":*:"
"""How Confluent's clients say: in all contexts. There is only one here."""
_DEFAULT_CONTEXT: Final = "."
_IN_DEFAULT_CONTEXT: Final = ":.:"
"""What may stand before the name of a subject in the default context."""
_INTERFACE_VERSION: Final = "7.9.0"
"""The version of Confluent's registry whose interface this is; clients may compare it."""
_GROUP_ID: Final = "schema-registry"
"""Confluent's default for what its instances have in common."""


async def root(_call: RegistryRequest) -> Any:
    return {}


async def list_subjects(call: RegistryRequest) -> Any:
    return call.page(
        queries.subjects(
            call.store.state,
            prefix=_prefix(call),
            deleted=call.is_set("deleted"),
            deleted_only=_is_deleted_only(call),
        )
    )


async def look_up(call: RegistryRequest) -> Any:
    question = partial(
        queries.look_up,
        subject=_subject(call),
        given=read_submitted(call.json_object),
        normalize=call.is_set("normalize"),
        deleted=call.is_set("deleted"),
    )
    return queries.described(await call.store.ask(question))


async def latest_with_metadata(call: RegistryRequest) -> Any:
    wanted = zip(call.query.getlist("key"), call.query.getlist("value"), strict=False)
    found = queries.latest_with_metadata(
        call.store.state, _subject(call), dict(wanted), deleted=call.is_set("deleted")
    )
    return queries.described(found)


async def delete_subject(call: RegistryRequest) -> Any:
    permanent = call.is_set("permanent")
    return await call.store.execute(
        partial(commands.delete_subject, subject=_subject(call), permanent=permanent),
        DELETE_SUBJECT,
    )


async def list_versions(call: RegistryRequest) -> Any:
    return call.page(
        queries.version_numbers(
            call.store.state,
            _subject(call),
            deleted=call.is_set("deleted"),
            deleted_only=_is_deleted_only(call),
            deleted_as_negative=call.is_set("deletedAsNegative"),
        )
    )


async def register(call: RegistryRequest) -> Any:
    command = partial(
        commands.register,
        subject=_subject(call),
        given=read_submitted(call.json_object),
        normalize=call.is_set("normalize"),
        force=call.is_set("force"),
    )
    return queries.registered(await call.store.execute(command), is_full=call.accepts_more)


async def show_version(call: RegistryRequest) -> Any:
    return queries.described(_version(call))


async def show_version_schema(call: RegistryRequest) -> Any:
    return _raw(_version(call))


async def delete_version(call: RegistryRequest) -> Any:
    subject, version = _subject(call), call.version(call.parts[1])
    permanent = call.is_set("permanent")
    return await call.store.execute(
        partial(commands.delete_version, subject=subject, version=version, permanent=permanent),
        DELETE_VERSION,
    )


async def referenced_by(call: RegistryRequest) -> Any:
    return call.page(
        queries.referenced_by(
            call.store.state,
            _subject(call),
            call.version(call.parts[1]),
            deleted=call.is_set("deleted"),
        )
    )


async def all_schemas(call: RegistryRequest) -> Any:
    return call.page(
        queries.all_schemas(
            call.store.state,
            prefix=_prefix(call),
            deleted=call.is_set("deleted"),
            latest_only=call.is_set("latestOnly"),
        )
    )


async def schema_of_id(call: RegistryRequest) -> Any:
    found = queries.schema_by_id(call.store.state, _id(call))
    answer = queries.schema_part(found)
    return answer | {"maxId": call.store.state.id_max} if call.is_set("fetchMaxId") else answer


async def raw_schema_of_id(call: RegistryRequest) -> Any:
    return _raw(queries.schema_by_id(call.store.state, _id(call)))


async def versions_of_id(call: RegistryRequest) -> Any:
    return call.page(
        [{"subject": each.subject, "version": each.version} for each in _uses(call)],
    )


async def subjects_of_id(call: RegistryRequest) -> Any:
    return call.page(sorted({each.subject for each in _uses(call)}))


async def schema_of_guid(call: RegistryRequest) -> Any:
    found = queries.schema_by_guid(call.store.state, call.parts[0])
    return queries.schema_part(found)


async def ids_of_guid(call: RegistryRequest) -> Any:
    try:
        found = queries.schema_by_guid(call.store.state, call.parts[0])
    except RestError:
        return []
    return [{"context": _DEFAULT_CONTEXT, "id": found.id}]


async def schema_types(_call: RegistryRequest) -> Any:
    return list(SCHEMA_TYPES)


async def contexts(call: RegistryRequest) -> Any:
    prefix = call.query.get("contextPrefix", "")
    return call.page([each for each in (_DEFAULT_CONTEXT,) if each.startswith(prefix)])


async def metadata_id(call: RegistryRequest) -> Any:
    clusters = {"kafka-cluster": call.store.cluster_id, "schema-registry-cluster": _GROUP_ID}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def metadata_version(_call: RegistryRequest) -> Any:
    return {"version": f"{_INTERFACE_VERSION}-headwater-{headwater.__version__}"}


async def check_version(call: RegistryRequest) -> Any:
    return await _checked(call, call.version(call.parts[1]))


async def check_subject(call: RegistryRequest) -> Any:
    return await _checked(call, None)


async def show_config(call: RegistryRequest) -> Any:
    return queries.config(call.store.state, _scope(call), or_global=call.is_set("defaultToGlobal"))


async def set_config(call: RegistryRequest) -> Any:
    body = call.json_object
    return await call.store.execute(
        partial(commands.set_config, subject=_scope(call), body=body), UPDATE_CONFIG
    )


async def delete_config(call: RegistryRequest) -> Any:
    return await call.store.execute(
        partial(commands.delete_config, subject=_scope(call)), DELETE_CONFIG
    )


async def show_mode(call: RegistryRequest) -> Any:
    return queries.mode(call.store.state, _scope(call), or_global=call.is_set("defaultToGlobal"))


async def set_mode(call: RegistryRequest) -> Any:
    body, force = call.json_object, call.is_set("force")
    return await call.store.execute(
        partial(commands.set_mode, subject=_scope(call), body=body, force=force), UPDATE_MODE
    )


async def delete_mode(call: RegistryRequest) -> Any:
    return await call.store.execute(
        partial(commands.delete_mode, subject=_scope(call)), DELETE_MODE
    )


PATHS: Final = (
    RegistryRoute(("",), {"GET": root}),
    RegistryRoute(("contexts",), {"GET": contexts}),
    RegistryRoute(("v1", "metadata", "id"), {"GET": metadata_id}),
    RegistryRoute(("v1", "metadata", "version"), {"GET": metadata_version}),
    RegistryRoute(("subjects",), {"GET": list_subjects}),
    RegistryRoute(("subjects", None), {"POST": look_up, "DELETE": delete_subject}),
    RegistryRoute(("subjects", None, "metadata"), {"GET": latest_with_metadata}),
    RegistryRoute(("subjects", None, "versions"), {"GET": list_versions, "POST": register}),
    RegistryRoute(
        ("subjects", None, "versions", None), {"GET": show_version, "DELETE": delete_version}
    ),
    RegistryRoute(("subjects", None, "versions", None, "schema"), {"GET": show_version_schema}),
    RegistryRoute(("subjects", None, "versions", None, "referencedby"), {"GET": referenced_by}),
    RegistryRoute(("schemas",), {"GET": all_schemas}),
    RegistryRoute(("schemas", "types"), {"GET": schema_types}),
    RegistryRoute(("schemas", "guids", None), {"GET": schema_of_guid}),
    RegistryRoute(("schemas", "guids", None, "ids"), {"GET": ids_of_guid}),
    RegistryRoute(("schemas", "ids", None), {"GET": schema_of_id}),
    RegistryRoute(("schemas", "ids", None, "schema"), {"GET": raw_schema_of_id}),
    RegistryRoute(("schemas", "ids", None, "versions"), {"GET": versions_of_id}),
    RegistryRoute(("schemas", "ids", None, "subjects"), {"GET": subjects_of_id}),
    RegistryRoute(("compatibility", "subjects", None, "versions"), {"POST": check_subject}),
    RegistryRoute(("compatibility", "subjects", None, "versions", None), {"POST": check_version}),
    RegistryRoute(("config",), {"GET": show_config, "PUT": set_config, "DELETE": delete_config}),
    RegistryRoute(
        ("config", None), {"GET": show_config, "PUT": set_config, "DELETE": delete_config}
    ),
    RegistryRoute(("mode",), {"GET": show_mode, "PUT": set_mode, "DELETE": delete_mode}),
    RegistryRoute(("mode", None), {"GET": show_mode, "PUT": set_mode, "DELETE": delete_mode}),
)


def _subject(call: RegistryRequest) -> str:
    """The subject in a path, which may name the default context."""
    return call.parts[0].removeprefix(_IN_DEFAULT_CONTEXT)


def _scope(call: RegistryRequest) -> str | None:
    """What a config or mode is for: a subject, or all of them without one."""
    return (_subject(call) or None) if call.parts and call.parts[0] else None


def _prefix(call: RegistryRequest) -> str:
    given = call.query.get("subjectPrefix", "")
    return given.removeprefix(_EVERYWHERE).removeprefix(_IN_DEFAULT_CONTEXT)


def _is_deleted_only(call: RegistryRequest) -> bool:
    # confluent-kafka spells it the second way, which Confluent's own registry passes over.
    return call.is_set("deletedOnly") or call.is_set("deleted_only")


def _version(call: RegistryRequest) -> SchemaValue:
    version = call.version(call.parts[1])
    deleted = call.is_set("deleted")
    return commands.version_of(call.store.state, _subject(call), version, deleted=deleted)


def _id(call: RegistryRequest) -> int:
    number = read_number(call.parts[0])
    if number is None:
        raise RestError(404, "HTTP 404 Not Found")
    return number


def _uses(call: RegistryRequest) -> list[SchemaValue]:
    found = queries.versions_of_id(call.store.state, _id(call), deleted=call.is_set("deleted"))
    subject = call.query.get("subject")
    return [each for each in found if subject in (None, "", each.subject)]


def _raw(version: SchemaValue) -> Raw:
    """The schema itself and not a text that holds it; one of another type need not be JSON."""
    return Raw(version.schema)


async def _checked(call: RegistryRequest, version: int | None) -> Any:
    question = partial(
        queries.told_compatibility,
        subject=_subject(call),
        version=version,
        given=read_submitted(call.json_object),
        normalize=call.is_set("normalize"),
        verbose=call.is_set("verbose"),
    )
    return await call.store.ask(question)

"""The REST API's paths and their handlers."""

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
from headwater.registry.schema_types import PROTOBUF, SCHEMA_TYPES
from headwater.registry.schemas_topic_records import SchemaValue
from headwater.registry.server import Raw, RegistryRequest, RegistryRoute, read_number

_ALL_CONTEXTS: Final = ":*:"
"""Prefix for "in all contexts" in Confluent's clients. There is only one here."""
_DEFAULT_CONTEXT: Final = "."
_IN_DEFAULT_CONTEXT: Final = ":.:"
"""Optional prefix of subjects in the default context."""
_INTERFACE_VERSION: Final = "7.9.0"
"""Version of Confluent's registry with this API; clients may compare it."""
_GROUP_ID: Final = "schema-registry"
"""Confluent's default for `schema.registry.group.id`."""


async def root(_request: RegistryRequest) -> Any:
    return {}


async def list_subjects(request: RegistryRequest) -> Any:
    return request.page(
        queries.subjects(
            request.store.state,
            prefix=_prefix(request),
            deleted=request.is_set("deleted"),
            deleted_only=_is_deleted_only(request),
        )
    )


async def look_up(request: RegistryRequest) -> Any:
    query = partial(
        queries.look_up,
        subject=_subject(request),
        given=read_submitted(request.json_object),
        normalize=request.is_set("normalize"),
        deleted=request.is_set("deleted"),
    )
    found = await request.store.query(query)
    return await _in_format(request, found, queries.described(found))


async def latest_with_metadata(request: RegistryRequest) -> Any:
    wanted = zip(request.query.getlist("key"), request.query.getlist("value"), strict=False)
    found = queries.latest_with_metadata(
        request.store.state, _subject(request), dict(wanted), deleted=request.is_set("deleted")
    )
    return queries.described(found)


async def delete_subject(request: RegistryRequest) -> Any:
    permanent = request.is_set("permanent")
    return await request.store.execute(
        partial(commands.delete_subject, subject=_subject(request), permanent=permanent),
        DELETE_SUBJECT,
    )


async def list_versions(request: RegistryRequest) -> Any:
    return request.page(
        queries.version_numbers(
            request.store.state,
            _subject(request),
            deleted=request.is_set("deleted"),
            deleted_only=_is_deleted_only(request),
            deleted_as_negative=request.is_set("deletedAsNegative"),
        )
    )


async def register(request: RegistryRequest) -> Any:
    given = read_submitted(request.json_object)
    command = partial(
        commands.register,
        subject=_subject(request),
        given=given,
        normalize=request.is_set("normalize"),
        force=request.is_set("force"),
    )
    version = await request.store.execute(command)
    answer = queries.registered(version, is_full=request.accepts_more)
    if version.schema_type == PROTOBUF and request.accepts_more:
        # confluent-kafka caches this text for its deserializer, which expects a descriptor if its
        # serializer has sent one.
        answer["schema"] = given.schema
    return answer


async def show_version(request: RegistryRequest) -> Any:
    found = _version(request)
    return await _in_format(request, found, queries.described(found))


async def show_version_schema(request: RegistryRequest) -> Any:
    return await _raw(request, _version(request))


async def delete_version(request: RegistryRequest) -> Any:
    subject, version = _subject(request), request.version(request.parts[1])
    permanent = request.is_set("permanent")
    return await request.store.execute(
        partial(commands.delete_version, subject=subject, version=version, permanent=permanent),
        DELETE_VERSION,
    )


async def referenced_by(request: RegistryRequest) -> Any:
    return request.page(
        queries.referenced_by(
            request.store.state,
            _subject(request),
            request.version(request.parts[1]),
            deleted=request.is_set("deleted"),
        )
    )


async def all_schemas(request: RegistryRequest) -> Any:
    return request.page(
        queries.all_schemas(
            request.store.state,
            prefix=_prefix(request),
            deleted=request.is_set("deleted"),
            latest_only=request.is_set("latestOnly"),
        )
    )


async def schema_of_id(request: RegistryRequest) -> Any:
    found = queries.schema_by_id(request.store.state, _id(request))
    answer = await _in_format(request, found, queries.schema_part(found))
    return (
        answer | {"maxId": request.store.state.id_max} if request.is_set("fetchMaxId") else answer
    )


async def raw_schema_of_id(request: RegistryRequest) -> Any:
    return await _raw(request, queries.schema_by_id(request.store.state, _id(request)))


async def versions_of_id(request: RegistryRequest) -> Any:
    return request.page(
        [{"subject": each.subject, "version": each.version} for each in _uses(request)],
    )


async def subjects_of_id(request: RegistryRequest) -> Any:
    return request.page(sorted({each.subject for each in _uses(request)}))


async def schema_of_guid(request: RegistryRequest) -> Any:
    found = queries.schema_by_guid(request.store.state, request.parts[0])
    return await _in_format(request, found, queries.schema_part(found))


async def ids_of_guid(request: RegistryRequest) -> Any:
    try:
        found = queries.schema_by_guid(request.store.state, request.parts[0])
    except RestError:
        return []
    return [{"context": _DEFAULT_CONTEXT, "id": found.id}]


async def schema_types(_request: RegistryRequest) -> Any:
    return list(SCHEMA_TYPES)


async def contexts(request: RegistryRequest) -> Any:
    prefix = request.query.get("contextPrefix", "")
    return request.page([each for each in (_DEFAULT_CONTEXT,) if each.startswith(prefix)])


async def metadata_id(request: RegistryRequest) -> Any:
    clusters = {"kafka-cluster": request.store.cluster_id, "schema-registry-cluster": _GROUP_ID}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def metadata_version(_request: RegistryRequest) -> Any:
    return {"version": f"{_INTERFACE_VERSION}-headwater-{headwater.__version__}"}


async def check_version(request: RegistryRequest) -> Any:
    return await _checked(request, request.version(request.parts[1]))


async def check_subject(request: RegistryRequest) -> Any:
    return await _checked(request, None)


async def show_config(request: RegistryRequest) -> Any:
    return queries.config(
        request.store.state, _scope(request), or_global=request.is_set("defaultToGlobal")
    )


async def set_config(request: RegistryRequest) -> Any:
    body = request.json_object
    return await request.store.execute(
        partial(commands.set_config, subject=_scope(request), body=body), UPDATE_CONFIG
    )


async def delete_config(request: RegistryRequest) -> Any:
    return await request.store.execute(
        partial(commands.delete_config, subject=_scope(request)), DELETE_CONFIG
    )


async def show_mode(request: RegistryRequest) -> Any:
    return queries.mode(
        request.store.state, _scope(request), or_global=request.is_set("defaultToGlobal")
    )


async def set_mode(request: RegistryRequest) -> Any:
    body, force = request.json_object, request.is_set("force")
    return await request.store.execute(
        partial(commands.set_mode, subject=_scope(request), body=body, force=force), UPDATE_MODE
    )


async def delete_mode(request: RegistryRequest) -> Any:
    return await request.store.execute(
        partial(commands.delete_mode, subject=_scope(request)), DELETE_MODE
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


def _subject(request: RegistryRequest) -> str:
    """The subject in the path, without the prefix of the default context."""
    return request.parts[0].removeprefix(_IN_DEFAULT_CONTEXT)


def _scope(request: RegistryRequest) -> str | None:
    """The subject of a config or mode; None if it is global."""
    return (_subject(request) or None) if request.parts and request.parts[0] else None


def _prefix(request: RegistryRequest) -> str:
    given = request.query.get("subjectPrefix", "")
    return given.removeprefix(_ALL_CONTEXTS).removeprefix(_IN_DEFAULT_CONTEXT)


def _is_deleted_only(request: RegistryRequest) -> bool:
    # confluent-kafka sends the second spelling, which Confluent's own registry ignores.
    return request.is_set("deletedOnly") or request.is_set("deleted_only")


def _version(request: RegistryRequest) -> SchemaValue:
    version = request.version(request.parts[1])
    deleted = request.is_set("deleted")
    return commands.version_of(request.store.state, _subject(request), version, deleted=deleted)


def _id(request: RegistryRequest) -> int:
    number = read_number(request.parts[0])
    if number is None:
        raise RestError(404, "HTTP 404 Not Found")
    return number


def _uses(request: RegistryRequest) -> list[SchemaValue]:
    found = queries.versions_of_id(
        request.store.state, _id(request), deleted=request.is_set("deleted")
    )
    subject = request.query.get("subject")
    return [each for each in found if subject in (None, "", each.subject)]


async def _raw(request: RegistryRequest, version: SchemaValue) -> Raw:
    """The schema itself instead of a JSON string; a schema need not be JSON."""
    return Raw(await _schema(request, version))


async def _in_format(
    request: RegistryRequest, version: SchemaValue, answer: dict[str, Any]
) -> dict[str, Any]:
    """An answer with the schema in the format that the client asks for."""
    return {**answer, "schema": await _schema(request, version)}


async def _schema(request: RegistryRequest, version: SchemaValue) -> str:
    wanted = request.query.get("format", "").strip()
    if not wanted:
        return version.schema
    return await request.store.query(
        partial(queries.schema_in_format, version=version, wanted=wanted)
    )


async def _checked(request: RegistryRequest, version: int | None) -> Any:
    query = partial(
        queries.compatibility_response,
        subject=_subject(request),
        version=version,
        given=read_submitted(request.json_object),
        normalize=request.is_set("normalize"),
        verbose=request.is_set("verbose"),
    )
    return await request.store.query(query)

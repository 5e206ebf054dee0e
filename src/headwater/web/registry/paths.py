"""Every path of the registry, with what it asks or commands."""

from functools import partial
from typing import Any, Final

from headwater.web.registry import commands, queries
from headwater.web.registry.app import Call, Path, Raw
from headwater.web.registry.refusals import Refusal
from headwater.web.registry.resolving import read_submitted
from headwater.web.registry.schema_types import SCHEMA_TYPES
from headwater.web.registry.stored import SchemaValue

_EVERYWHERE: Final = ":*:"
"""How Confluent's clients say: in all contexts. There is only one here."""


async def root(_call: Call) -> Any:
    return {}


async def list_subjects(call: Call) -> Any:
    prefix = call.query.get("subjectPrefix", "").removeprefix(_EVERYWHERE)
    return call.page(
        queries.subjects(
            call.store.state,
            prefix=prefix,
            deleted=call.is_set("deleted"),
            deleted_only=call.is_set("deletedOnly"),
        )
    )


async def look_up(call: Call) -> Any:
    return queries.look_up(
        call.store.state,
        call.parts[0],
        read_submitted(call.json_object),
        normalize=call.is_set("normalize"),
        deleted=call.is_set("deleted"),
    )


async def delete_subject(call: Call) -> Any:
    permanent = call.is_set("permanent")
    return await call.store.execute(
        partial(commands.delete_subject, subject=call.parts[0], permanent=permanent)
    )


async def list_versions(call: Call) -> Any:
    return call.page(
        queries.version_numbers(
            call.store.state,
            call.parts[0],
            deleted=call.is_set("deleted"),
            deleted_only=call.is_set("deletedOnly"),
        )
    )


async def register(call: Call) -> Any:
    given = read_submitted(call.json_object)
    normalize = call.is_set("normalize")
    return await call.store.execute(
        partial(commands.register, subject=call.parts[0], given=given, normalize=normalize)
    )


async def show_version(call: Call) -> Any:
    return queries.described(_version(call))


async def show_version_schema(call: Call) -> Any:
    return _raw(_version(call))


async def delete_version(call: Call) -> Any:
    subject, text = call.parts
    version = call.version(text)
    permanent = call.is_set("permanent")
    return await call.store.execute(
        partial(commands.delete_version, subject=subject, version=version, permanent=permanent)
    )


async def referenced_by(call: Call) -> Any:
    subject, text = call.parts
    return call.page(queries.referenced_by(call.store.state, subject, call.version(text)))


async def all_schemas(call: Call) -> Any:
    return call.page(
        queries.all_schemas(
            call.store.state,
            prefix=call.query.get("subjectPrefix", "").removeprefix(_EVERYWHERE),
            deleted=call.is_set("deleted"),
            latest_only=call.is_set("latestOnly"),
        )
    )


async def schema_of_id(call: Call) -> Any:
    answer = queries.schema_part(queries.schema_by_id(call.store.state, _id(call)))
    return answer | {"maxId": call.store.state.id_max} if call.is_set("fetchMaxId") else answer


async def raw_schema_of_id(call: Call) -> Any:
    return _raw(queries.schema_by_id(call.store.state, _id(call)))


async def versions_of_id(call: Call) -> Any:
    return call.page(
        [{"subject": each.subject, "version": each.version} for each in _uses(call)],
    )


async def subjects_of_id(call: Call) -> Any:
    return call.page(sorted({each.subject for each in _uses(call)}))


async def schema_types(_call: Call) -> Any:
    return list(SCHEMA_TYPES)


async def check_version(call: Call) -> Any:
    return _checked(call, call.version(call.parts[1]))


async def check_subject(call: Call) -> Any:
    return _checked(call, None)


async def show_config(call: Call) -> Any:
    return queries.config(
        call.store.state, _subject(call), or_global=call.is_set("defaultToGlobal")
    )


async def set_config(call: Call) -> Any:
    body = call.json_object
    return await call.store.execute(partial(commands.set_config, subject=_subject(call), body=body))


async def delete_config(call: Call) -> Any:
    return await call.store.execute(partial(commands.delete_config, subject=_subject(call)))


async def show_mode(call: Call) -> Any:
    return queries.mode(call.store.state, _subject(call), or_global=call.is_set("defaultToGlobal"))


async def set_mode(call: Call) -> Any:
    body, force = call.json_object, call.is_set("force")
    return await call.store.execute(
        partial(commands.set_mode, subject=_subject(call), body=body, force=force)
    )


async def delete_mode(call: Call) -> Any:
    return await call.store.execute(partial(commands.delete_mode, subject=_subject(call)))


PATHS: Final = (
    Path(("",), {"GET": root}),
    Path(("subjects",), {"GET": list_subjects}),
    Path(("subjects", None), {"POST": look_up, "DELETE": delete_subject}),
    Path(("subjects", None, "versions"), {"GET": list_versions, "POST": register}),
    Path(("subjects", None, "versions", None), {"GET": show_version, "DELETE": delete_version}),
    Path(("subjects", None, "versions", None, "schema"), {"GET": show_version_schema}),
    Path(("subjects", None, "versions", None, "referencedby"), {"GET": referenced_by}),
    Path(("schemas",), {"GET": all_schemas}),
    Path(("schemas", "types"), {"GET": schema_types}),
    Path(("schemas", "ids", None), {"GET": schema_of_id}),
    Path(("schemas", "ids", None, "schema"), {"GET": raw_schema_of_id}),
    Path(("schemas", "ids", None, "versions"), {"GET": versions_of_id}),
    Path(("schemas", "ids", None, "subjects"), {"GET": subjects_of_id}),
    Path(("compatibility", "subjects", None, "versions"), {"POST": check_subject}),
    Path(("compatibility", "subjects", None, "versions", None), {"POST": check_version}),
    Path(("config",), {"GET": show_config, "PUT": set_config, "DELETE": delete_config}),
    Path(("config", None), {"GET": show_config, "PUT": set_config, "DELETE": delete_config}),
    Path(("mode",), {"GET": show_mode, "PUT": set_mode, "DELETE": delete_mode}),
    Path(("mode", None), {"GET": show_mode, "PUT": set_mode, "DELETE": delete_mode}),
)


def _subject(call: Call) -> str | None:
    return call.parts[0] if call.parts else None


def _version(call: Call) -> SchemaValue:
    subject, text = call.parts
    deleted = call.is_set("deleted")
    return commands.version_of(call.store.state, subject, call.version(text), deleted=deleted)


def _id(call: Call) -> int:
    text = call.parts[0]
    if not text.isdecimal() or int(text) >= 2**31:
        raise Refusal(404, "HTTP 404 Not Found")
    return int(text)


def _uses(call: Call) -> list[SchemaValue]:
    found = queries.versions_of_id(call.store.state, _id(call), deleted=call.is_set("deleted"))
    subject = call.query.get("subject")
    return [each for each in found if subject in (None, "", each.subject)]


def _raw(version: SchemaValue) -> Raw:
    """The schema itself and not a text that holds it; one of another type need not be JSON."""
    return Raw(version.schema)


def _checked(call: Call, version: int | None) -> Any:
    return queries.told_compatibility(
        call.store.state,
        call.parts[0],
        version,
        read_submitted(call.json_object),
        normalize=call.is_set("normalize"),
        verbose=call.is_set("verbose"),
    )

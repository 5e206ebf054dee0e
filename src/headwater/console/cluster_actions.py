"""Changes to brokers and security that users can make from the console.

Note: as in `headwater.console.actions`, all checks of access have been made before.
"""

from enum import IntEnum
from typing import TypeVar

from headwater.client.admin.descriptions import Acl, ConfigResource
from headwater.client.admin.scram_user_calls import ScramDeletion, ScramUpsertion
from headwater.common.ids import TopicPartition
from headwater.console.actions import Done
from headwater.console.console_errors import bad_request
from headwater.console.context import ConsoleRequest
from headwater.console.form_fields import whole, whole_int32
from headwater.console.html import link_to
from headwater.console.views.security import DEFAULT_ENTITY
from headwater.security.authorization.acl_bindings import (
    PatternType,
    Permission,
    from_kafka_name,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity

E = TypeVar("E", bound=IntEnum)


async def change_broker_config(call: ConsoleRequest) -> Done:
    """Set a dynamic config of a broker, or remove it with `reset`."""
    return await _change(call, ConfigResource.broker(_node_id(call)), "configs")


async def change_logger(call: ConsoleRequest) -> Done:
    """Set the level of a logger, or remove it with `reset`."""
    return await _change(call, ConfigResource.loggers(_node_id(call)), "loggers")


async def cancel_reassignment(call: ConsoleRequest) -> Done:
    place = TopicPartition(call.field("topic"), whole_int32(call.field("partition"), "partition"))
    await call.admin.alter_partition_reassignments({place: None})
    call.console.cluster_views.forget()
    return Done(done="reassignment-cancelled", where=link_to("reassignments"))


async def create_acl(call: ConsoleRequest) -> Done:
    await call.admin.create_acls([_acl(call)])
    return Done(done="acl-created", where=link_to("acls"))


async def delete_acl(call: ConsoleRequest) -> Done:
    """Delete exactly the binding that has all these fields."""
    deleted = await call.admin.delete_acls([_acl(call)])
    if not any(deleted.values()):
        raise bad_request("There is no such ACL.")
    return Done(done="acl-deleted", where=link_to("acls"))


async def save_user(call: ConsoleRequest) -> Done:
    """Create a SCRAM credential or replace its password."""
    # A password may begin and end with spaces.
    password = call.fields.get("password", "")
    if not password:
        raise bad_request("'password' is missing.")
    upsertion = ScramUpsertion(
        user=call.field("name"), password=password, mechanism=call.field("mechanism")
    )
    await call.admin.alter_user_scram_credentials([upsertion])
    return Done(done="user-saved", where=link_to("users"))


async def delete_user(call: ConsoleRequest) -> Done:
    deletion = ScramDeletion(user=call.field("name"), mechanism=call.field("mechanism"))
    await call.admin.alter_user_scram_credentials([deletion])
    return Done(done="user-deleted", where=link_to("users"))


async def change_quota(call: ConsoleRequest) -> Done:
    """Set a quota of an entity, or remove it if the value is empty."""
    entity = QuotaEntity(
        user=_entity_part(call, "user"),
        client_id=_entity_part(call, "client_id"),
        ip=_entity_part(call, "ip"),
    )
    if not entity.parts:
        raise bad_request("A quota needs a user, a client id or an IP address.")
    given = call.fields.get("value", "").strip()
    await call.admin.alter_client_quotas({entity: {call.field("quota"): _quota(given)}})
    return Done(done="quota-saved", where=link_to("quotas"))


async def _change(call: ConsoleRequest, resource: ConfigResource, page: str) -> Done:
    is_reset = bool(call.fields.get("reset"))
    value = None if is_reset else call.fields.get("value", "")
    await call.admin.alter_configs({resource: {call.field("name"): value}})
    where = link_to("brokers", resource.name, page)
    return Done(done="config-reset" if is_reset else "config-set", where=where)


def _node_id(call: ConsoleRequest) -> int:
    return whole_int32(call.parts[0], "broker")


def _acl(call: ConsoleRequest) -> Acl:
    return Acl(
        resource_type=_named(ResourceKind, call.field("resource_type")),
        resource_name=call.field("resource_name"),
        pattern_type=_named(PatternType, call.fields.get("pattern_type", "") or "Literal"),
        principal=call.field("principal"),
        host=call.fields.get("host", "").strip() or "*",
        operation=_named(Operation, call.field("operation")),
        permission_type=_named(Permission, call.fields.get("permission", "") or "Allow"),
    )


def _named(kind: type[E], text: str) -> E:
    try:
        found = from_kafka_name(kind, text)
    except ValueError as error:
        raise bad_request(f"{error}.") from None
    if found.name in ("ANY", "MATCH", "UNKNOWN"):
        # As a filter they would delete more than the binding that the user saw.
        raise bad_request(f"'{text}' is for filters only.")
    return found


def _entity_part(call: ConsoleRequest, name: str) -> str | None:
    given = call.fields.get(name, "").strip()
    if given == DEFAULT_ENTITY:
        return DEFAULT
    return given or None


def _quota(text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text) if "." in text else float(whole(text, "value"))
    except ValueError:
        raise bad_request(f"'value' must be a number, not '{text[:40]}'.") from None

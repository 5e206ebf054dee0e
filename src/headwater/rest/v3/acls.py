"""ACLs of API v3."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

from headwater.client.admin.descriptions import Acl
from headwater.rest.body_fields import BodyFields
from headwater.rest.rest_errors import RestProxyError, bad_request
from headwater.rest.rest_request import RestAnswer, RestRequest
from headwater.rest.v3.resources import ClusterScope, Json
from headwater.security.authorization.acl_bindings import PatternType, Permission
from headwater.security.authorization.authorizer import Operation, ResourceKind

E = TypeVar("E", bound=IntEnum)

_QUERY = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)


async def list_acls(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    found = await scope.admin.describe_acls(_filter(request.query))
    query = {name: request.query[name] for name in _QUERY if name in request.query}
    return scope.listing(
        "KafkaAclList", ["acls"], [_acl(scope, each) for each in found], query=query
    )


async def create_acl(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    acl = _binding(request.fields(status=400))
    await scope.admin.create_acls([acl])
    return RestAnswer(status=201, headers={"Location": _url(scope, acl)}, body={})


async def create_acls(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    acls = [_binding(each) for each in request.fields(status=400).objects("data")]
    await scope.admin.create_acls(acls)
    return RestAnswer(status=201, body={})


async def delete_acls(request: RestRequest) -> Any:
    scope = await ClusterScope.of(request)
    for name in ("resource_type", "pattern_type", "operation", "permission"):
        if name not in request.query:
            raise bad_request(f"{name} cannot be unspecified or UNKNOWN")
    matching = _filter(request.query)
    deleted = await scope.admin.delete_acls([matching])
    return {"data": [_acl(scope, each) for each in deleted[matching]]}


def _filter(query: Mapping[str, str]) -> Acl:
    return Acl(
        resource_type=_constant(ResourceKind, query.get("resource_type"), "resource_type"),
        resource_name=query.get("resource_name"),
        pattern_type=_constant(PatternType, query.get("pattern_type"), "pattern_type"),
        principal=query.get("principal"),
        host=query.get("host"),
        operation=_constant(Operation, query.get("operation"), "operation"),
        permission_type=_constant(Permission, query.get("permission"), "permission"),
    )


def _binding(body: BodyFields) -> Acl:
    pattern_type = _constant(PatternType, body.text("pattern_type"), "pattern_type")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise bad_request("pattern_type must be LITERAL or PREFIXED")
    resource_type = _constant(ResourceKind, body.text("resource_type"), "resource_type")
    operation = _constant(Operation, body.text("operation"), "operation")
    permission = _constant(Permission, body.text("permission"), "permission")
    for name, value in (
        ("resource_type", resource_type),
        ("operation", operation),
        ("permission", permission),
    ):
        if value.name == "ANY":
            raise bad_request(f"{name} cannot be ANY")
    if resource_type is ResourceKind.CLUSTER and body.text("resource_name") != "kafka-cluster":
        raise RestProxyError(
            400, "The only valid name for the CLUSTER resource is kafka-cluster", 40002
        )
    return Acl(
        resource_type=resource_type,
        resource_name=body.text("resource_name"),
        pattern_type=pattern_type,
        principal=body.text("principal"),
        host=body.text("host"),
        operation=operation,
        permission_type=permission,
    )


def _constant(kind: Callable[[int], E], text: str | None, name: str) -> E:
    """A constant by its name; ANY if it is not given."""
    members: Mapping[str, E] = kind.__members__  # type: ignore[attr-defined]
    found = members.get((text or "ANY").upper())
    if found is None or found.name == "UNKNOWN":
        raise bad_request(f"{name} cannot be unspecified or UNKNOWN")
    return found


def _fields(acl: Acl) -> dict[str, str]:
    return {
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name or "",
        "pattern_type": acl.pattern_type.name,
        "principal": acl.principal or "",
        "host": acl.host or "",
        "operation": acl.operation.name,
        "permission": acl.permission_type.name,
    }


def _url(scope: ClusterScope, acl: Acl) -> str:
    return scope.url("acls", query=_fields(acl))


def _acl(scope: ClusterScope, acl: Acl) -> Json:
    fields = _fields(acl)
    return {
        "kind": "KafkaAcl",
        "metadata": {"self": scope.url("acls", query=fields)},
        "cluster_id": scope.cluster_id,
        **fields,
    }

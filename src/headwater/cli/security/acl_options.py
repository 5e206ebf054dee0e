"""Translate the options of `headwater acls` to ACL bindings, as kafka-acls does.

Note: `--producer` and `--consumer` stand for several bindings, on topics and on groups or
transactional ids, and exclude `--operation`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headwater.client.admin.descriptions import Acl
from headwater.security.authorization.acl_bindings import (
    WILDCARD,
    PatternType,
    Permission,
    from_kafka_name,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation, ResourceKind

_WRITING: Final = {
    ResourceKind.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceKind.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_READING: Final = {
    ResourceKind.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceKind.GROUP: (Operation.READ,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resource options."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    delegation_tokens: Sequence[str] = ()
    users: Sequence[str] = ()
    is_cluster: bool = False
    is_prefixed: bool = False

    def each(self) -> Iterator[tuple[ResourceKind, str]]:
        named = (
            (ResourceKind.TOPIC, self.topics),
            (ResourceKind.GROUP, self.groups),
            (ResourceKind.TRANSACTIONAL_ID, self.transactional_ids),
            (ResourceKind.DELEGATION_TOKEN, self.delegation_tokens),
            (ResourceKind.USER, self.users),
        )
        for kind, names in named:
            for name in names:
                yield kind, name
        if self.is_cluster:
            yield CLUSTER

    def pattern_type(self, kind: ResourceKind) -> PatternType:
        """Literal for the cluster, whose name has no prefixes."""
        is_prefix = self.is_prefixed and kind is not ResourceKind.CLUSTER
        return PatternType.PREFIXED if is_prefix else PatternType.LITERAL


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRequest:
    """The principal, host, operation and convenience options."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()
    operations: Sequence[str] = ()
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False

    @property
    def has_entries(self) -> bool:
        """Whether it selects entries, not just resources."""
        principals_and_hosts = (self.allowed, self.denied, self.allowed_hosts, self.denied_hosts)
        flags = (self.is_producer, self.is_consumer, self.is_idempotent)
        return any((*principals_and_hosts, self.operations, *flags))


def bindings_for(resources: Resources, request: AclRequest) -> list[Acl]:
    """The ACL bindings to create, without duplicates. Raises `ValueError`."""
    if not (request.allowed or request.denied):
        raise ValueError("give --allow-principal or --deny-principal, such as User:alice")
    for principal in (*request.allowed, *request.denied):
        if ":" not in principal:
            raise ValueError(f"{principal!r} is not a principal; write User:{principal}")
    for hosts, principals, word in (
        (request.allowed_hosts, request.allowed, "allow"),
        (request.denied_hosts, request.denied, "deny"),
    ):
        if hosts and not principals:
            raise ValueError(f"--{word}-host requires --{word}-principal")
    targets = _targets(resources, request)
    rules: dict[Acl, None] = {}
    for permission, principals, hosts in (
        (Permission.ALLOW, request.allowed, request.allowed_hosts),
        (Permission.DENY, request.denied, request.denied_hosts),
    ):
        for target in targets:
            for principal in principals:
                for host in hosts or (WILDCARD,):
                    rule = replace(
                        target, principal=principal, host=host, permission_type=permission
                    )
                    rules[rule] = None
    return list(rules)


def filters_for(resources: Resources, request: AclRequest) -> list[Acl]:
    """The filters to delete by: exact bindings, or all bindings of the resources."""
    if request.has_entries:
        return bindings_for(resources, request)
    found = [
        Acl(resource_type=kind, resource_name=name, pattern_type=resources.pattern_type(kind))
        for kind, name in resources.each()
    ]
    if not found:
        raise ValueError(_RESOURCE_MISSING)
    return found


def listed(resources: Resources, principals: Sequence[str]) -> list[Acl]:
    """The filters to list by. For a resource, all bindings that apply to it (MATCH)."""
    places = [
        Acl(
            resource_type=kind,
            resource_name=name,
            pattern_type=PatternType.PREFIXED if resources.is_prefixed else PatternType.MATCH,
        )
        for kind, name in resources.each()
    ] or [Acl()]
    if not principals:
        return places
    return [replace(place, principal=principal) for place in places for principal in principals]


_RESOURCE_MISSING: Final = (
    "give a resource: --topic, --group, --transactional-id, --cluster, --delegation-token or "
    "--user-principal"
)


def _targets(resources: Resources, request: AclRequest) -> list[Acl]:
    """Bindings with resource and operation, without principals."""
    given = list(resources.each())
    if not given:
        raise ValueError(_RESOURCE_MISSING)
    if request.is_producer or request.is_consumer:
        if request.operations:
            raise ValueError("--operation cannot be combined with --producer or --consumer")
        return _of_clients(resources, request)
    if request.is_idempotent:
        raise ValueError("--idempotent requires --producer")
    operations = [from_kafka_name(Operation, text) for text in request.operations]
    return [
        Acl(
            resource_type=kind,
            resource_name=name,
            pattern_type=resources.pattern_type(kind),
            operation=operation,
        )
        for kind, name in given
        for operation in operations or [Operation.ALL]
    ]


def _of_clients(resources: Resources, request: AclRequest) -> list[Acl]:
    if not resources.topics:
        raise ValueError("--producer and --consumer require --topic")
    if request.is_consumer and not resources.groups:
        raise ValueError("--consumer requires --group")
    chosen = [
        *([_WRITING] if request.is_producer else []),
        *([_READING] if request.is_consumer else []),
    ]
    found = [
        Acl(
            resource_type=kind,
            resource_name=name,
            pattern_type=resources.pattern_type(kind),
            operation=operation,
        )
        for kind, name in resources.each()
        for operations in chosen
        for operation in operations.get(kind, ())
    ]
    if request.is_idempotent:
        kind, name = CLUSTER
        found.append(
            Acl(
                resource_type=kind,
                resource_name=name,
                pattern_type=PatternType.LITERAL,
                operation=Operation.IDEMPOTENT_WRITE,
            )
        )
    return found

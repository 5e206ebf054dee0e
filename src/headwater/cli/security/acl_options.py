"""From the options of `headwater acls` to rules, in the manner of kafka-acls.

What a reader would get wrong: `--producer` and `--consumer` are short for several rules, on topics
and on what belongs to them; then operations are not given one by one.
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
    """What rules are about, as it was given."""

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
        """There is one cluster, and a prefix of its name would be a mistake."""
        is_prefix = self.is_prefixed and kind is not ResourceKind.CLUSTER
        return PatternType.PREFIXED if is_prefix else PatternType.LITERAL


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRequest:
    """Whom rules are about, and what they say, as it was given."""

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
        """Whether it says more than "all rules of these resources"."""
        principals_and_hosts = (self.allowed, self.denied, self.allowed_hosts, self.denied_hosts)
        flags = (self.is_producer, self.is_consumer, self.is_idempotent)
        return any((*principals_and_hosts, self.operations, *flags))


def rules_for(resources: Resources, wish: AclRequest) -> list[Acl]:
    """The rules that were asked for, each once; ValueError says what is missing or too much."""
    if not (wish.allowed or wish.denied):
        raise ValueError("say whom: --allow-principal User:alice, or --deny-principal")
    for principal in (*wish.allowed, *wish.denied):
        if ":" not in principal:
            raise ValueError(f"{principal!r} is no principal, which looks like User:{principal}")
    for hosts, principals, word in (
        (wish.allowed_hosts, wish.allowed, "allow"),
        (wish.denied_hosts, wish.denied, "deny"),
    ):
        if hosts and not principals:
            raise ValueError(f"--{word}-host belongs to --{word}-principal")
    targets = _targets(resources, wish)
    rules: dict[Acl, None] = {}
    for permission, principals, hosts in (
        (Permission.ALLOW, wish.allowed, wish.allowed_hosts),
        (Permission.DENY, wish.denied, wish.denied_hosts),
    ):
        for target in targets:
            for principal in principals:
                for host in hosts or (WILDCARD,):
                    rule = replace(
                        target, principal=principal, host=host, permission_type=permission
                    )
                    rules[rule] = None
    return list(rules)


def filters_for(resources: Resources, wish: AclRequest) -> list[Acl]:
    """What is to be removed: these very rules, or all of these resources."""
    if wish.has_entries:
        return rules_for(resources, wish)
    found = [
        Acl(resource_type=kind, resource_name=name, pattern_type=resources.pattern_type(kind))
        for kind, name in resources.each()
    ]
    if not found:
        raise ValueError(_WHAT)
    return found


def listed(resources: Resources, principals: Sequence[str]) -> list[Acl]:
    """What is to be listed. Of a resource all that applies to it, prefixes included."""
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


_WHAT: Final = "say what: --topic, --group, --transactional-id, --cluster or another resource"


def _targets(resources: Resources, wish: AclRequest) -> list[Acl]:
    """Resources with an operation each."""
    given = list(resources.each())
    if not given:
        raise ValueError(_WHAT)
    if wish.is_producer or wish.is_consumer:
        if wish.operations:
            raise ValueError(
                "--producer and --consumer say which operations; leave --operation out"
            )
        return _of_clients(resources, wish)
    if wish.is_idempotent:
        raise ValueError("--idempotent belongs to --producer")
    operations = [from_kafka_name(Operation, text) for text in wish.operations]
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


def _of_clients(resources: Resources, wish: AclRequest) -> list[Acl]:
    if not resources.topics:
        raise ValueError("--producer and --consumer need --topic")
    if wish.is_consumer and not resources.groups:
        raise ValueError("--consumer needs --group too")
    chosen = [
        *([_WRITING] if wish.is_producer else []),
        *([_READING] if wish.is_consumer else []),
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
    if wish.is_idempotent:
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

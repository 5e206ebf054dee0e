"""`headwater acls`: list, add and remove ACLs, with the options of kafka-acls."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    show,
    show_done,
)

if TYPE_CHECKING:
    from headwater.cli.security.acl_options import AclRequest, Resources
    from headwater.client import Acl

app = typer.Typer(no_args_is_help=True, help="List, add and remove ACLs.")

Texts = list[str] | None

Topics = Annotated[
    Texts, typer.Option("--topic", "-t", help="Topic; * for all topics. Repeatable.")
]
Groups = Annotated[
    Texts, typer.Option("--group", "-g", help="Consumer group; * for all groups. Repeatable.")
]
Ids = Annotated[
    Texts, typer.Option("--transactional-id", help="Transactional id; * for all. Repeatable.")
]
Tokens = Annotated[Texts, typer.Option("--delegation-token", help="Delegation token. Repeatable.")]
Users = Annotated[
    Texts, typer.Option("--user-principal", help="User resource, such as User:alice. Repeatable.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster resource.")]
Prefixed = Annotated[
    bool, typer.Option("--prefixed", help="Treat resource names as prefixes; default: literal.")
]
Allowed = Annotated[
    Texts, typer.Option("--allow-principal", help="Principal to allow, such as User:alice.")
]
Denied = Annotated[
    Texts, typer.Option("--deny-principal", help="Principal to deny, such as User:alice.")
]
AllowedHosts = Annotated[
    Texts, typer.Option("--allow-host", help="Host to allow access from; default: all hosts.")
]
DeniedHosts = Annotated[
    Texts, typer.Option("--deny-host", help="Host to deny access from; default: all hosts.")
]
Operations = Annotated[
    Texts,
    typer.Option(
        "--operation", "-o", help="Operation, such as Read, Write or Describe; default: All."
    ),
]
Producing = Annotated[
    bool,
    typer.Option(
        "--producer", help="Operations of a producer: Write, Describe and Create on topics."
    ),
]
Consuming = Annotated[
    bool,
    typer.Option(
        "--consumer", help="Operations of a consumer: Read and Describe on topics, Read on groups."
    ),
]
Idempotent = Annotated[
    bool,
    typer.Option(
        "--idempotent", help="With --producer: add IdempotentWrite, for brokers before 3.0."
    ),
]


@app.command("list")
def list_(
    principal: Annotated[
        Texts, typer.Option("--principal", help="List only this principal. Repeatable.")
    ] = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Ids = None,
    delegation_token: Tokens = None,
    user_principal: Users = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List all ACLs, or the ACLs of the given resources or principals."""
    from headwater.cli.security.acl_options import listed

    resources = _resources(
        topic, group, transactional_id, delegation_token, user_principal, cluster, prefixed
    )
    found: dict[Acl, None] = {}
    with admin_of(bootstrap, command_config) as admin:
        for each in listed(resources, principal or []):
            found.update(dict.fromkeys(admin.describe_acls(each)))
    show(_rows(sorted(found, key=_order)), as_json=as_json, columns=_COLUMNS)


@app.command()
def add(
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: Operations = None,
    producer: Producing = False,
    consumer: Consuming = False,
    idempotent: Idempotent = False,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Ids = None,
    delegation_token: Tokens = None,
    user_principal: Users = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Add ACLs."""
    from headwater.cli.security.acl_options import bindings_for

    resources = _resources(
        topic, group, transactional_id, delegation_token, user_principal, cluster, prefixed
    )
    request = _request(
        (allow_principal, deny_principal, allow_host, deny_host, operation),
        (producer, consumer, idempotent),
    )
    with _arguments():
        rules = bindings_for(resources, request)
    with admin_of(bootstrap, command_config) as admin:
        admin.create_acls(rules)
    show_done(_rows(rules), as_json=as_json)


@app.command()
def remove(
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: Operations = None,
    producer: Producing = False,
    consumer: Consuming = False,
    idempotent: Idempotent = False,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Ids = None,
    delegation_token: Tokens = None,
    user_principal: Users = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Remove ACLs; without principal and operation, all ACLs of the resources."""
    from headwater.cli.security.acl_options import filters_for

    resources = _resources(
        topic, group, transactional_id, delegation_token, user_principal, cluster, prefixed
    )
    request = _request(
        (allow_principal, deny_principal, allow_host, deny_host, operation),
        (producer, consumer, idempotent),
    )
    with _arguments():
        filters = filters_for(resources, request)
    with admin_of(bootstrap, command_config) as admin:
        removed = admin.delete_acls(filters)
    deleted = dict.fromkeys(each for found in removed.values() for each in found)
    if not deleted:
        typer.echo("headwater: no ACL matches", err=True)
        raise typer.Exit(1)
    show(_rows(sorted(deleted, key=_order)), as_json=as_json, columns=_COLUMNS)


_COLUMNS = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]


def _rows(rules: "Sequence[Acl]") -> list[dict[str, object]]:
    from headwater.security.authorization.acl_bindings import kafka_name

    return [
        {
            "resource": kafka_name(each.resource_type),
            "name": each.resource_name,
            "pattern": each.pattern_type.name,
            "principal": each.principal,
            "host": each.host,
            "operation": kafka_name(each.operation),
            "permission": kafka_name(each.permission_type),
        }
        for each in rules
    ]


def _order(rule: "Acl") -> tuple[object, ...]:
    return (
        rule.resource_type,
        rule.resource_name,
        rule.pattern_type,
        rule.principal,
        rule.host,
        rule.permission_type,
        rule.operation,
    )


def _resources(
    topics: Texts,
    groups: Texts,
    transactional_ids: Texts,
    tokens: Texts,
    users: Texts,
    is_cluster: bool,
    is_prefixed: bool,
) -> "Resources":
    from headwater.cli.security.acl_options import Resources

    return Resources(
        topics=topics or (),
        groups=groups or (),
        transactional_ids=transactional_ids or (),
        delegation_tokens=tokens or (),
        users=users or (),
        is_cluster=is_cluster,
        is_prefixed=is_prefixed,
    )


def _request(texts: Sequence[Texts], flags: Sequence[bool]) -> "AclRequest":
    from headwater.cli.security.acl_options import AclRequest

    allowed, denied, allowed_hosts, denied_hosts, operations = (each or () for each in texts)
    is_producer, is_consumer, is_idempotent = flags
    return AclRequest(
        allowed=allowed,
        denied=denied,
        allowed_hosts=allowed_hosts,
        denied_hosts=denied_hosts,
        operations=operations,
        is_producer=is_producer,
        is_consumer=is_consumer,
        is_idempotent=is_idempotent,
    )


@contextmanager
def _arguments() -> Iterator[None]:
    """Turn `ValueError` into typer's usage error."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error

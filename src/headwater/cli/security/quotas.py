"""`headwater quotas`: list, set and remove client quotas."""

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    pairs,
    show,
    show_done,
)

if TYPE_CHECKING:
    from headwater.client import QuotaEntity

app = typer.Typer(no_args_is_help=True, help="List, set and remove client quotas.")

User = Annotated[str | None, typer.Option("--user", "-u", help="Quotas of this user.")]
ClientId = Annotated[
    str | None, typer.Option("--client-id", "-c", help="Quotas of this client id.")
]
Ip = Annotated[str | None, typer.Option("--ip", help="Quotas of this IP address.")]
AnyUser = Annotated[bool, typer.Option("--default-user", help="Default quotas of users.")]
AnyClientId = Annotated[
    bool, typer.Option("--default-client-id", help="Default quotas of client ids.")
]
AnyIp = Annotated[bool, typer.Option("--default-ip", help="Default quotas of IP addresses.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Validate only, change nothing.")]


@app.command("list")
def list_quotas(
    user: User = None,
    default_user: AnyUser = False,
    client_id: ClientId = None,
    default_client_id: AnyClientId = False,
    ip: Ip = None,
    default_ip: AnyIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List all quotas, or those of the given entities."""
    wanted = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    with admin_of(bootstrap, command_config) as admin:
        found = admin.describe_client_quotas(wanted)
    rows = [
        {**_row(entity), "quota": key, "value": value}
        for entity, quotas in found.items()
        for key, value in quotas.items()
    ]
    show(rows, as_json=as_json, columns=["user", "client_id", "ip", "quota", "value"])


@app.command("set")
def set_quotas(
    quotas: Annotated[
        list[str], typer.Argument(help="name=number, such as producer_byte_rate=1048576")
    ],
    user: User = None,
    default_user: AnyUser = False,
    client_id: ClientId = None,
    default_client_id: AnyClientId = False,
    ip: Ip = None,
    default_ip: AnyIp = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Set quotas of a user, client id, user and client id, or IP address.

    producer_byte_rate and consumer_byte_rate are bytes per second, request_percentage is a share
    of one request thread, controller_mutation_rate is partitions created or deleted per second,
    and connection_creation_rate (of an IP address) is connections per second.
    """
    entity = _expect_entity(
        _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    )
    values = {name: _number(name, text) for name, text in pairs(quotas, "QUOTAS").items()}
    with admin_of(bootstrap, command_config) as admin:
        admin.alter_client_quotas({entity: dict(values)}, validate_only=dry_run)
    rows = [
        {**_row(entity), "quota": name, "value": value, "done": not dry_run}
        for name, value in values.items()
    ]
    show_done(rows, as_json=as_json)


@app.command("unset")
def unset_quotas(
    names: Annotated[
        list[str] | None, typer.Argument(help="Quotas to remove.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all quotas of the entity.")] = False,
    user: User = None,
    default_user: AnyUser = False,
    client_id: ClientId = None,
    default_client_id: AnyClientId = False,
    ip: Ip = None,
    default_ip: AnyIp = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of an entity."""
    entity = _expect_entity(
        _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    )
    if bool(names) is every:
        raise typer.BadParameter("give names of quotas or --all, and not both")
    with admin_of(bootstrap, command_config) as admin:
        there = admin.describe_client_quotas(entity, strict=True).get(entity, {})
        chosen = list(there) if every else list(names or [])
        missing = [name for name in chosen if name not in there]
        for name in missing:
            typer.echo(f"headwater: quota {name} is not set", err=True)
        if missing:
            raise typer.Exit(1)
        if chosen:
            admin.alter_client_quotas({entity: dict.fromkeys(chosen)}, validate_only=dry_run)
    rows = [{**_row(entity), "quota": name, "done": not dry_run} for name in chosen]
    show_done(rows, as_json=as_json)


def _row(entity: "QuotaEntity") -> dict[str, object]:
    """The entity as columns; a default entity as <default>, as in kafka-configs."""
    return {part: "<default>" if name == "" else name for part, name in entity._asdict().items()}


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> "QuotaEntity":
    from headwater.client import QuotaEntity

    return QuotaEntity(
        user=_part("user", user, default_user),
        client_id=_part("client-id", client_id, default_client_id),
        ip=_part("ip", ip, default_ip),
    )


def _part(name: str, given: str | None, is_default: bool) -> str | None:
    from headwater.client import QUOTA_DEFAULT

    if given is not None and is_default:
        raise typer.BadParameter(f"give only one of --{name} and --default-{name}")
    if given == QUOTA_DEFAULT:
        raise typer.BadParameter(f"--{name} must not be empty; use --default-{name}")
    return QUOTA_DEFAULT if is_default else given


def _expect_entity(entity: "QuotaEntity") -> "QuotaEntity":
    if not entity.parts:
        raise typer.BadParameter(
            "give an entity: --user, --client-id or --ip, or the default of one of them"
        )
    return entity


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{name} must be a number, not {text!r}") from None

"""`headwater users`: manage SCRAM credentials."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    exit_on_error,
    is_terminal,
    show,
    show_done,
)

if TYPE_CHECKING:
    from headwater.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
    )

app = typer.Typer(no_args_is_help=True, help="Manage users with SCRAM credentials.")

_DEFAULT_MECHANISM = "SCRAM-SHA-256"
_ZOOKEEPER_TIMEOUT_S = 10.0

Name = Annotated[str, typer.Argument(help="User name.", show_default=False)]
Mechanism = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        "-m",
        help="SCRAM-SHA-256 (default of create) or SCRAM-SHA-512; repeatable.",
        show_default=False,
    ),
]
Password = Annotated[
    str | None,
    typer.Option(
        "--password",
        help="Password; visible to other users of this machine. Default: prompt, or read one line "
        "from standard input.",
        show_default=False,
    ),
]
Iterations = Annotated[int, typer.Option(help="SCRAM iterations, from 4096 to 16384.")]


@app.command("list")
def list_(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List users with their SCRAM mechanisms."""
    with admin_of(bootstrap, command_config) as admin:
        found = admin.describe_user_scram_credentials()
    rows = [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for user, mechanisms in sorted(found.items())
        for mechanism, iterations in mechanisms.items()
    ]
    show(rows, as_json=as_json, columns=["user", "mechanism", "iterations"])


@app.command()
def create(
    user: Name,
    mechanism: Mechanism = None,
    iterations: Iterations = 4096,
    password: Password = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Create a user or set a new password."""
    from headwater.client import ScramUpsertion

    chosen = mechanism or [_DEFAULT_MECHANISM]
    secret = _password(password)
    with admin_of(bootstrap, command_config) as admin:
        admin.alter_user_scram_credentials(
            [
                ScramUpsertion(user=user, password=secret, mechanism=each, iterations=iterations)
                for each in chosen
            ]
        )
    show_done([{"user": user, "mechanism": each} for each in chosen], as_json=as_json)


@app.command()
def delete(
    user: Name,
    mechanism: Mechanism = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete a user's SCRAM credentials: of the given mechanisms, or all."""
    from headwater.client import ScramDeletion

    with admin_of(bootstrap, command_config) as admin:
        chosen = mechanism or list(admin.describe_user_scram_credentials([user])[user])
        admin.alter_user_scram_credentials(
            [ScramDeletion(user=user, mechanism=each) for each in chosen]
        )
    show_done([{"user": user, "mechanism": each} for each in chosen], as_json=as_json)


@app.command()
def bootstrap(
    user: Name,
    data: Annotated[
        Path | None,
        typer.Option(help="Log directory of a stopped standalone broker.", show_default=False),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(help="ZooKeeper of the cluster, host:port.", show_default=False),
    ] = None,
    mechanism: Mechanism = None,
    iterations: Iterations = 4096,
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Create a first user without a running broker, for clusters that require SCRAM."""
    if (data is None) == (zookeeper is None):
        raise typer.BadParameter("give one of --data and --zookeeper")
    chosen = mechanism or [_DEFAULT_MECHANISM]
    secret = _password(password)
    with exit_on_error():
        from headwater.broker.authentication.bootstrap_users import alter_local_users, error_lines
        from headwater.metadata_store.zookeeper.scram_user_writer import alter_users_in_zookeeper
        from headwater.network.system_clock import SystemRandom

        request = _request(user, chosen, iterations, secret)
        if data is not None:
            results = alter_local_users(data, request, SystemRandom())
        else:
            assert zookeeper is not None
            results = alter_users_in_zookeeper(zookeeper, request, timeout_s=_ZOOKEEPER_TIMEOUT_S)
        lines = error_lines(results)
    for line in lines:
        typer.echo(f"headwater: {line}", err=True)
    if lines:
        raise typer.Exit(1)
    show_done([{"user": user, "mechanism": each} for each in chosen], as_json=as_json)


def _request(
    user: str, mechanisms: list[str], iterations: int, password: str
) -> "AlterUserScramCredentialsRequest":
    from headwater.client.admin.scram_user_calls import ScramUpsertion, upsertion
    from headwater.network.system_clock import SystemRandom
    from headwater.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
    )

    rng = SystemRandom()
    return AlterUserScramCredentialsRequest(
        upsertions=tuple(
            upsertion(
                ScramUpsertion(user=user, password=password, mechanism=each, iterations=iterations),
                rng,
            )
            for each in mechanisms
        )
    )


def _password(given: str | None) -> str:
    """The option, the input of a prompt, or the first line of standard input."""
    if given is not None:
        return given
    if is_terminal(sys.stdin):
        entered: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return entered
    line = sys.stdin.readline().rstrip("\r\n") if sys.stdin is not None else ""
    if not line:
        raise typer.BadParameter("standard input has no password; give --password")
    return line

"""What the commands share that open an HTTP port: its address, and the file that secures it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwater.http_server.http_settings import HttpAddress

Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="The address to listen on, or https:// and the address."
    ),
]
DoorConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        exists=True,
        dir_okay=False,
        help="A properties file: TLS and logins of the port, under Confluent's names.",
    ),
]

Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="A name with a dot that clients reach it by, such as that of a proxy, or *.example. "
        "May be repeated.",
    ),
]


def http_address_of(
    settings: Mapping[str, str],
    listen: str | None,
    default: str,
    *,
    others_known: Collection[str] = (),
    hosts: Collection[str] = (),
) -> "HttpAddress":
    """The port that was asked for. `InvalidSetting` says what is wrong."""
    from headwater.http_server.http_settings import HttpAddress, read_http_settings

    chosen, others = read_http_settings(settings)
    door = HttpAddress.of(chosen, listen, default, hosts)
    for name in others:
        if name not in others_known:
            typer.echo(f"headwater: {name} is ignored: it is of no use here", err=True)
    if door.users is not None and door.context is None:
        typer.echo("headwater: passwords travel as they are: listen on https://", err=True)
    return door

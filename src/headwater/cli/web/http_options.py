"""Options of the commands that serve HTTP: listen address, TLS and users."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwater.http_server.http_settings import HttpAddress

Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Address to listen on; https://HOST:PORT for TLS. Default: 127.0.0.1 and port 8080 "
        "(console), 8081 (registry) or 8082 (rest).",
    ),
]
HttpConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        exists=True,
        dir_okay=False,
        help="Properties file with TLS and authentication settings under Confluent's names. "
        "Default: none.",
    ),
]

Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="Additional host name that clients use, such as a proxy's, or *.example. Repeatable.",
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
    """Parse the listen address and its settings; `InvalidSetting` if they are invalid."""
    return http_addresses_of(settings, [(listen, default)], others_known=others_known, hosts=hosts)[
        0
    ]


def http_addresses_of(
    settings: Mapping[str, str],
    listens: Sequence[tuple[str | None, str]],
    *,
    others_known: Collection[str] = (),
    hosts: Collection[str] = (),
) -> "list[HttpAddress]":
    """Parse several addresses with the same settings, each given or a default."""
    from headwater.http_server.http_settings import HttpAddress, read_http_settings

    chosen, others = read_http_settings(settings)
    addresses = [HttpAddress.of(chosen, listen, default, hosts) for listen, default in listens]
    for name in others:
        if name not in others_known:
            typer.echo(f"headwater: setting {name} is ignored: it is not known here", err=True)
    if any(each.users is not None and each.context is None for each in addresses):
        typer.echo("headwater: passwords are sent unencrypted; listen on https://", err=True)
    return addresses
